-- SPDX-License-Identifier: Apache-2.0
SELECT auction, bidder, price, dateTime, extra
FROM (SELECT *, MAX(price) OVER (PARTITION BY window(dateTime, '10 seconds')) AS highest FROM bids)
WHERE price = highest
