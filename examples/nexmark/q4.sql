-- SPDX-License-Identifier: Apache-2.0
SELECT category, AVG(final) AS average
FROM (
  SELECT id, category, MAX(price) AS final
  FROM bids JOIN auctions ON auction = id
  WHERE bids.dateTime BETWEEN auctions.dateTime AND expires
  GROUP BY id, category)
GROUP BY category
