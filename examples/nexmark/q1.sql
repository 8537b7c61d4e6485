-- SPDX-License-Identifier: Apache-2.0
SELECT auction, bidder, CAST(price * 0.908 AS DECIMAL(23, 3)) AS price, dateTime, extra FROM bids
