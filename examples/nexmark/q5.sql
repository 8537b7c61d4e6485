-- SPDX-License-Identifier: Apache-2.0
WITH counted AS (
  SELECT window, auction, COUNT(*) AS bids FROM bids GROUP BY window(dateTime, '10 seconds', '2 seconds'), auction),
most AS (SELECT window, MAX(bids) AS bids FROM counted GROUP BY window)
SELECT window.start AS window_start, window.end AS window_end, SORT_ARRAY(COLLECT_LIST(auction)) AS auctions, bids
FROM counted JOIN most USING (window, bids) GROUP BY window, bids
