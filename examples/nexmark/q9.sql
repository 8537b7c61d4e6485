-- SPDX-License-Identifier: Apache-2.0
SELECT id, price, bidder, at, seller
FROM (
  SELECT id, price, bidder, bids.dateTime AS at, seller,
    ROW_NUMBER() OVER (PARTITION BY id ORDER BY price DESC, bids.dateTime) AS place
  FROM bids JOIN auctions ON auction = id
  WHERE bids.dateTime BETWEEN auctions.dateTime AND expires)
WHERE place = 1
