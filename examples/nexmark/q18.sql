-- SPDX-License-Identifier: Apache-2.0
SELECT bidder, auction, price, channel, url, dateTime, extra
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS place FROM bids)
WHERE place = 1
