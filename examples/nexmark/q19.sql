-- SPDX-License-Identifier: Apache-2.0
SELECT auction, TRANSFORM(ARRAY_SORT(COLLECT_LIST(STRUCT(place, bid))), x -> x.bid) AS top
FROM (
  SELECT auction, STRUCT(bidder, price, channel, url, dateTime, extra) AS bid,
    ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, dateTime) AS place
  FROM bids)
WHERE place <= 10 GROUP BY auction
