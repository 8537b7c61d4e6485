-- SPDX-License-Identifier: Apache-2.0
SELECT auction, DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS day,
  COUNT(*) AS bids,
  COUNT_IF(price < 10000) AS rank1_bids,
  COUNT_IF(price >= 10000 and price < 1000000) AS rank2_bids,
  COUNT_IF(price >= 1000000) AS rank3_bids,
  MIN(price) AS lowest,
  MAX(price) AS highest,
  AVG(price) AS average,
  SUM(price) AS total
FROM bids GROUP BY auction, day
