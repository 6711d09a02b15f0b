-- Every line of an order becomes a row; lines without a price in the list are left out.
-- `_lakemark` says where a row comes from: it has to come along.
SELECT
  lines.id AS order_id,
  lines.line.article,
  lines.line.pieces,
  lines.line.pieces * prices.price AS amount,
  lines.changed_at,
  lines._lakemark
FROM (SELECT *, explode(items) AS line FROM changes) AS lines
JOIN prices ON prices.article = lines.line.article
WHERE lines.line.pieces > 0
