-- SPDX-License-Identifier: Apache-2.0
-- In which ten seconds a bid is read, its data do not say: only the sum over all windows.
SELECT bidder, COUNT(*) AS bids FROM bids GROUP BY bidder
