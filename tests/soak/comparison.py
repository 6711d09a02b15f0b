"""Compares every table of a pipeline under fire with what the oracle says it must show."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import QueryBuilder

from include.audit.auditor import audit
from tests.soak.load import State
from tests.soak.victim import Table, Victim
from tests.support.readers import opened
from tests.support.world import as_dict, read_table

_SHOWN = 5


@dataclass(frozen=True)
class Difference:
    """What is wrong in one table."""

    table: str
    right: int  # rows, states, or records that it must show
    wrong: Collection[Any]  # what it shows and what it must show, by key
    of: str = "rows"

    def __str__(self) -> str:
        return f"{self.table} {self.right:,} {self.of}, {len(self.wrong)} wrong"


def is_right(victim: Victim, deep: bool) -> bool:
    """Drains a pipeline, compares its tables, audits it, and says what was found."""
    victim.drain()
    settings, pipeline = victim.world.settings, victim.pipeline
    differences = list(_differences(victim))
    report = audit(settings, pipeline, deep)
    of_landing = audit(settings, pipeline.landing).findings if pipeline.landing else ()
    findings = [*report.findings, *of_landing]
    print(f"  {pipeline.name}: {'; '.join(map(str, differences))}; {len(findings)} audit findings", flush=True)
    for table in report.tables:
        print(f"    {table}", flush=True)
    for found in differences:
        for wrong in list(found.wrong)[:_SHOWN]:
            print(f"    {found.table}: {wrong}", flush=True)
    for finding in findings:
        print(f"    {finding}", flush=True)
    recomputed = not deep or all(table.not_recomputed is None for table in report.tables)
    return recomputed and not findings and not any(found.wrong for found in differences)


def _differences(victim: Victim) -> Iterator[Difference]:
    expected, tables = victim.expected, victim.tables
    rows = dict(zip(("target", "route"), expected.rows(), strict=False))
    for name, outlet in victim.outlets.items():
        held, right = outlet.held(), rows["route" if outlet.section.get("what") == "route" else "target"]
        if outlet.keeps and name in victim.renewed:
            held = {key: row for key, row in held.items() if key in right}
        yield Difference(f"sink {name}", len(right), _unequal(held, right))
    for role, table in tables.items():
        match role:
            case "quarantine":
                held = {(row["topic"], row["partition"], row["offset"]) for row in read_table(table.uri)}
                yield Difference(role, len(expected.aside), _either(held, expected.aside), "records")
            case "archive":
                yield Difference(role, len(expected.records), _either(_archived(table), expected.records), "records")
            case "history" | "target" if role == "history" or victim.pipeline.change.history == "scd2":
                right = expected.states()
                yield Difference(role, sum(map(len, right.values())), _unequal(_shown_states(table), right), "states")
            case _:
                yield Difference(role, len(rows[role]), _unequal(as_dict(read_table(table.uri)), rows[role]))


def _either(found: set[Any], right: set[Any]) -> list[tuple[str, Any]]:
    return [*(("lost", place) for place in right - found), *(("too many", place) for place in found - right)]


def _unequal(found: dict[int, Any], right: dict[int, Any]) -> list[str]:
    return [
        f"key {key}: found {found.get(key)}, expected {right.get(key)}"
        for key in found.keys() | right.keys()
        if found.get(key) != right.get(key)
    ]


def _archived(table: Table) -> set[tuple[str, int, int, bytes]]:
    """Its records; one that was archived twice counts once."""
    found = _query(table, 'select distinct topic, partition, "offset", value from t')
    return {(row["topic"], row["partition"], row["offset"], row["value"]) for row in found}


def _shown_states(table: Table) -> dict[int, list[State]]:
    """What readers of a history see. A key's current row, and no other, has no end."""
    found: dict[int, list[State]] = {}
    for row in _query(table, "select id, valid_from, valid_to, seq, name, op, is_current from t"):
        assert row["is_current"] == (row["valid_from"] is not None and row["valid_to"] is None), row
        if row["valid_from"] is not None:
            state = (row["valid_from"], row["valid_to"], row["seq"], row["name"], row["op"])
            found.setdefault(row["id"], []).append(state)
    return {key: sorted(states, key=str) for key, states in found.items()}


def _query(table: Table, sql: str) -> list[dict[str, Any]]:
    if table.version is None:
        return []
    found = QueryBuilder().register("t", opened(table.uri)).execute(sql)
    return pa.table(found.read_all()).to_pylist()
