"""What a table needs of maintenance, and which tombstones may go. Pure.

A tombstone keeps an older change from making a deleted row again. Once it is purged, nothing does: so what was purged
is written down with the table first (`PURGED`), and a backfill that would read a purged key's older changes without
its delete is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from include.protocol.errors import TerminalError
from include.protocol.ledger_events import Event, fold
from include.protocol.ranges import OffsetRange, TopicPartition, offsets_from_json, offsets_to_json

PURGED = "lakemark.tombstonesPurgedTo"  # table property: offsets, end exclusive, below which tombstones may be gone
SMALL_BYTES = 32 * 1024 * 1024
_DELETED_MAX = 0.2  # share of rows that deletion vectors hide; above it every reader pays for them


@dataclass(frozen=True)
class TableShape:
    """What a table is made of."""

    files: int
    small_files: int  # below SMALL_BYTES
    bytes: int
    disk_bytes: int  # of all data files in its folder, also those of old versions
    removable_files: int  # old data files that the newest version does not need; younger versions may still
    log_files: int
    records: int  # physical ones
    deleted: int  # of them, hidden by deletion vectors

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def wants_optimize(shape: TableShape, small_files_max: int) -> bool:
    """Whether rewriting files is worth its cost."""
    return shape.small_files > small_files_max or shape.deleted > _DELETED_MAX * shape.records


def purgeable(rows: Sequence[tuple[datetime, Event]], before: datetime) -> dict[TopicPartition, int]:
    """Offsets, end exclusive, below which every record was committed before `before`, and not read anew since.

    Args:
        rows: the ledger's events, in order, and when each was recorded.
    """
    then = fold(event for at, event in rows if at < before).committed_offsets
    now = fold(event for _, event in rows).committed_offsets
    return {tp: min(offset, now[tp]) for tp, offset in then.items() if now.get(tp, 0) > 0 and offset > 0}


def verify_not_purged(
    pipeline: str, chunks: Iterable[Sequence[OffsetRange]], purged: Mapping[TopicPartition, int]
) -> None:
    """Raises TerminalError if reading these ranges again could make rows again whose deletes were purged."""
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for r in (r for ranges in chunks for r in ranges):
        starts[r.topic_partition] = min(r.start_offset, starts.get(r.topic_partition, r.start_offset))
        ends[r.topic_partition] = max(r.end_offset, ends.get(r.topic_partition, r.end_offset))
    for tp, end in sorted(ends.items()):
        if starts[tp] < purged.get(tp, 0) and end < purged[tp]:
            raise TerminalError(
                what="deletes that came after these records were purged: rows that are deleted would come back",
                where=f"{pipeline}, {tp}",
                expected=f"a range that ends at {purged[tp]} or later, or begins there",
                found=f"{starts[tp]} to {end} (exclusive)",
                action=f"let the range of {tp} end at {purged[tp]}, so that the deletes are read again too; or fill a "
                "new table",
            )


def purged_to_text(offsets: Mapping[TopicPartition, int]) -> str:
    """As the table property holds it."""
    return json.dumps(offsets_to_json(offsets), separators=(",", ":"))


def purged_from(configuration: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """From a table's properties; empty if nothing was ever purged."""
    text = configuration.get(PURGED)
    return offsets_from_json(json.loads(text)) if text else {}
