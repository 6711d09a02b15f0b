"""Says what audits have proven of a pipeline's tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime

from include.protocol.json_data import JsonObject
from include.protocol.proofs import Depth, Look, Looks, Proofs, outcome

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def proof_facts(tables: Iterable[str], proofs: Proofs, generation: int, now: datetime) -> JsonObject:
    """By table: `outcome` (findings, never proven, proven), `in_words`, and the newest look of each depth, `rows` and
    `log`, null if there was none: generation, batch_id (up to which it looked), at, findings, version.

    Args:
        generation: the ledger's.
    """
    return {name: _facts(proofs.get(name, {}), generation, now) for name in tables}


def _facts(looks: Looks, generation: int, now: datetime) -> JsonObject:
    rows, log = looks.get("rows"), looks.get("log")
    facts = {"rows": rows and asdict(rows), "log": log and asdict(log)}
    return {"outcome": outcome(looks), "in_words": in_words(looks, generation, now), **facts}


def in_words(looks: Looks, generation: int, now: datetime) -> str:
    """The newest looks at one table, the deepest first. A clean look by log that was part of the one at the rows is not
    said again."""
    rows, log = looks.get("rows"), looks.get("log")
    told: list[tuple[Depth, Look]] = []
    if rows is not None:
        told.append(("rows", rows))
    if log is not None and not (rows is not None and (rows.at, rows.findings, log.findings) == (log.at, 0, 0)):
        told.append(("log", log))
    parts = [f"{_found(look)}by {depth} {_age(look.at, now)} ago, {_until(look, generation)}" for depth, look in told]
    if parts and outcome(looks) == "proven":
        return f"proven {'; '.join(part.removeprefix('proven ') for part in parts)}"
    return "; ".join(parts) or "never proven"


def _found(look: Look) -> str:
    if look.findings == 0:
        return "proven "
    return "1 finding " if look.findings == 1 else f"{look.findings:,} findings "


def _until(look: Look, generation: int) -> str:
    of = "" if look.generation == generation else f" of generation {look.generation}"
    return f"up to batch {look.batch_id}{of}" if look.batch_id >= 0 else f"before the first batch{of}"


def _age(at: str, now: datetime) -> str:
    """As the page says it."""
    seconds = max(0.0, (now - datetime.fromisoformat(at)).total_seconds())
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds >= 2 * size), ("s", 1))
    return f"{int(seconds // size)} {unit}"
