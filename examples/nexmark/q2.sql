-- SPDX-License-Identifier: Apache-2.0
SELECT auction, price FROM bids WHERE auction % 123 = 0
