-- SPDX-License-Identifier: Apache-2.0
SELECT bidder, price, channel, url, bids.dateTime AS bid_at, itemName, description, initialBid, reserve,
  auctions.dateTime AS offered_at, expires, seller, category
FROM bids JOIN auctions ON auction = id WHERE category = 10
