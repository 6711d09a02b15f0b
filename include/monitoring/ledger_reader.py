"""Keeps the digest of a ledger up to date. Only new events are read."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

from include.lake.delta_tables import OpenedTable, open_table, query
from include.lake.ledger import Ledger
from include.lake.uri import LakeUri
from include.monitoring.ledger_digest import LedgerDigest
from include.protocol.json_data import JsonMapping, JsonObject

_COARSE_NS = 1_000_000_000
_ROWS = 20_000  # read at once: bounds the memory


@dataclass
class LedgerReader:
    """Reads one ledger and keeps what it has read. Not for several threads at once."""

    uri: LakeUri
    _digest: LedgerDigest = field(init=False, default_factory=LedgerDigest)
    _changed_at: int | None = field(init=False, default=None)
    _table_id: str | None = field(init=False, default=None)

    def digest(self) -> LedgerDigest:
        """The ledger's digest as of now; reads only what is new.

        Raises:
            TableDamaged: see `open_table`. LedgerConflict: see there.
        """
        changed_at = Ledger(self.uri).changed_at()
        if changed_at != self._changed_at or changed_at is None:
            self._read(changed_at)
        return self._digest

    def _read(self, changed_at: int | None) -> None:
        table = open_table(self.uri)
        table_id = str(table.metadata().id) if table is not None else None
        if table_id != self._table_id:  # rebuilt by `ledger rebuild`
            self._digest, self._table_id = LedgerDigest(), table_id
        if table is not None:
            self._take_in(table)
        # File times are coarse: a file this young may change again and keep its time.
        old_enough = changed_at is not None and time.time_ns() - changed_at > _COARSE_NS
        self._changed_at = changed_at if old_enough else None

    def _take_in(self, table: OpenedTable) -> None:
        """Reads the new rows, some at a time. Attempts matter only for the batch that was planned last."""
        sql = "select max(sequence) as last, max(case when event = 'planned' then sequence end) as planned from t"
        [found] = query(table, sql)
        last, planned = found["last"] if found["last"] is not None else -1, found["planned"] or 0
        for low in range(self._digest.sequence, last + 1, _ROWS):
            window = f"sequence >= {low} and sequence < {low + _ROWS}"
            wanted = f"(event not like 'attempt%' or sequence > {planned})"
            rows = query(table, f"select * from t where {window} and {wanted} order by sequence")
            self._digest = self._digest.after(map(with_details, rows))


def with_details(row: JsonMapping) -> JsonObject:
    """A row of a ledger, with its details as data."""
    return {**row, "details": json.loads(row["details"])}
