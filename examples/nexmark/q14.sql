-- SPDX-License-Identifier: Apache-2.0
SELECT auction, bidder, CAST(price * 0.908 AS DECIMAL(23, 3)) AS price,
  CASE WHEN HOUR(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' WHEN HOUR(dateTime) BETWEEN 6 AND 20 THEN 'otherTime'
    ELSE 'nightTime' END AS time,
  dateTime, extra, LENGTH(extra) - LENGTH(REPLACE(extra, 'c')) AS letters_c
FROM bids WHERE price * 0.908 > 10000 AND price * 0.908 < 500000
