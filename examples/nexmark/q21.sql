-- SPDX-License-Identifier: Apache-2.0
SELECT * FROM (
  SELECT auction, bidder, price, channel,
    CASE channel WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
      ELSE NULLIF(REGEXP_EXTRACT(url, '[&?]channel_id=([^&]*)', 1), '') END AS channel_id
  FROM bids)
WHERE channel_id IS NOT NULL
