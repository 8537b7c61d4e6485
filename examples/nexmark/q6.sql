-- SPDX-License-Identifier: Apache-2.0
SELECT seller, AVG(final) AS average
FROM (
  SELECT seller, MAX(price) AS final, ROW_NUMBER() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) AS place
  FROM bids JOIN auctions ON auction = id
  WHERE bids.dateTime BETWEEN auctions.dateTime AND expires
  GROUP BY id, seller, expires)
WHERE place <= 10
GROUP BY seller
