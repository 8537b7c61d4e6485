-- SPDX-License-Identifier: Apache-2.0
WITH steps AS (
  SELECT *, COALESCE(dateTime - LAG(dateTime) OVER w > INTERVAL 10 SECONDS, true) AS is_first
  FROM bids WINDOW w AS (PARTITION BY bidder ORDER BY dateTime)),
numbered AS (SELECT *, COUNT_IF(is_first) OVER (PARTITION BY bidder ORDER BY dateTime) AS session FROM steps)
SELECT bidder, MIN(dateTime) AS window_start, MAX(dateTime) AS window_end, COUNT(*) AS bids
FROM numbered GROUP BY bidder, session
