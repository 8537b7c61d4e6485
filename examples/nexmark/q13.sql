-- SPDX-License-Identifier: Apache-2.0
SELECT auction, bidder, price, dateTime, value FROM bids JOIN side ON auction % 500 = side.key
