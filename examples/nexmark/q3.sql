-- SPDX-License-Identifier: Apache-2.0
SELECT name, city, state, auctions.id AS id
FROM auctions JOIN persons ON seller = persons.id
WHERE category = 10 AND state IN ('OR', 'ID', 'CA')
