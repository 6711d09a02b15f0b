-- Every line of an order becomes a row; lines without a price are left out.
SELECT
  lines.id AS order_id,
  lines.seq,
  lines.line.article,
  lines.line.pieces,
  lines.line.pieces * prices.price AS amount,
  lines._lakemark
FROM (SELECT *, explode(items) AS line FROM changes) AS lines
JOIN prices ON prices.article = lines.line.article
