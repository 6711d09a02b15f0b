"""An example of a sink of your own: an SQLite file with the rows, and the progress in the same transaction.

A pipeline uses it so:

    sinks:
      log:
        python: {file: audit_log.py, class: AuditLog, options: {path: /var/lib/app/changes.sqlite}}

See docs/sinks.md, "A sink of your own".
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping

from include.delivery.user_class import Overtaken, UserBatch

_SCHEMA = """
CREATE TABLE IF NOT EXISTS rows (key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE IF NOT EXISTS progress (pipeline text, sink text, text text NOT NULL, PRIMARY KEY (pipeline, sink));
"""


class AuditLog:
    """Keeps the newest row of each key, as JSON."""

    def __init__(self, options: Mapping[str, object], pipeline: str, sink: str) -> None:
        self._of = pipeline, sink
        self._database = sqlite3.connect(str(options["path"]), timeout=60, isolation_level=None)
        self._database.executescript(_SCHEMA)

    def progress(self) -> str | None:
        query = "SELECT text FROM progress WHERE pipeline = ? AND sink = ?"
        found = self._database.execute(query, self._of).fetchone()
        return None if found is None else str(found[0])

    def deliver(self, batch: UserBatch, progress: str) -> None:
        self._database.execute("BEGIN IMMEDIATE")  # nobody else writes until the end of this transaction
        try:
            if self.progress() != batch.after:
                raise Overtaken
            if batch.is_snapshot:
                self._database.execute("DELETE FROM rows")
            for keys in batch.removed():
                texts = ((_text(key),) for key in keys.to_pylist())
                self._database.executemany("DELETE FROM rows WHERE key = ?", texts)
            for rows in batch.rows():
                keyed = (({name: row[name] for name in batch.keys}, row) for row in rows.to_pylist())
                pairs = ((_text(key), _text(row)) for key, row in keyed)
                self._database.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", pairs)
            self._database.execute("INSERT OR REPLACE INTO progress VALUES (?, ?, ?)", (*self._of, progress))
            self._database.execute("COMMIT")
        except BaseException:
            self._database.execute("ROLLBACK")
            raise

    def read(self) -> Iterator[dict[str, object]]:
        """All rows that the sink has, for `lakemark sinks test`."""
        for (value,) in self._database.execute("SELECT value FROM rows"):
            yield json.loads(value)

    def close(self) -> None:
        self._database.close()


def _text(row: Mapping[str, object]) -> str:
    return json.dumps(row, sort_keys=True, default=str)
