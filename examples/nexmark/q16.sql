-- SPDX-License-Identifier: Apache-2.0
SELECT channel, DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS day, MAX(DATE_FORMAT(dateTime, 'HH:mm')) AS minute,
  COUNT(*) AS bids,
  COUNT_IF(price < 10000) AS rank1_bids,
  COUNT_IF(price >= 10000 and price < 1000000) AS rank2_bids,
  COUNT_IF(price >= 1000000) AS rank3_bids,
  COUNT(DISTINCT bidder) AS bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price >= 10000 and price < 1000000) AS rank2_bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
  COUNT(DISTINCT auction) AS auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price >= 10000 and price < 1000000) AS rank2_auctions,
  COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
FROM bids GROUP BY channel, day
