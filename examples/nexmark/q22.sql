-- SPDX-License-Identifier: Apache-2.0
SELECT auction, bidder, price, channel, SPLIT(url, '/')[3] AS dir1, SPLIT(url, '/')[4] AS dir2, SPLIT(url, '/')[5] AS dir3
FROM bids
