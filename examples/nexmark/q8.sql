-- SPDX-License-Identifier: Apache-2.0
WITH coming AS (SELECT id, name, unix_millis(dateTime) DIV 10000 AS slice FROM persons),
selling AS (SELECT seller, unix_millis(dateTime) DIV 10000 AS slice FROM auctions)
SELECT DISTINCT id AS person, name, timestamp_millis(slice * 10000) AS started
FROM coming JOIN selling USING (slice) WHERE id = seller
