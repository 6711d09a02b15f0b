"""Builders for the pure tests."""

from __future__ import annotations

from include.protocol.batch import Batch
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.counts import BatchCounts, MergeCounts, SourceCounts
from include.protocol.ledger_events import BatchCommitted
from include.protocol.planning import PartitionExtent, SourceExtent
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.settlement import LandedCommit

COUNTS = SourceCounts(read=10, quarantined=1, filtered=1, superseded=3, changes=5)
NO_COUNTS = SourceCounts(read=0, quarantined=0, filtered=0, superseded=0, changes=0)


def batch(batch_id: int = 0, *ranges: tuple[str, int, int, int], generation: int = 1) -> Batch:
    made = tuple(OffsetRange(*r) for r in ranges or (("t", 0, 10 * batch_id, 10 * batch_id + 10),))
    return Batch("p", generation, batch_id, made, {r.topic: f"id-{r.topic}" for r in made}, "cluster")


def committed(of: Batch) -> BatchCommitted:
    counts = BatchCounts(10, 4, 3, 1, 1, 1)
    return BatchCommitted(of.generation, of.batch_id, of.fingerprint, of.batch_id + 1, "2026-01-01", "a", counts)


def merged(source_rows: int = 5, applied: int = 4) -> MergeCounts:
    return MergeCounts(source_rows, inserted=applied, updated=0, deleted=0)


def landed(of: Batch, source_rows: int = 5, applied: int = 4) -> LandedCommit:
    metadata = CommitMetadata.of(
        of, "target", COUNTS, {r.topic_partition: r.end_offset for r in of.ranges}, "attempt", "0.1.0"
    )
    return LandedCommit(7, "2026-01-01T00:00:00+00:00", metadata, merged(source_rows, applied))


def source(extents: dict[tuple[str, int], tuple[int, int]], **topic_ids: str) -> SourceExtent:
    topics = {topic for topic, _ in extents}
    return SourceExtent(
        "cluster",
        {topic: topic_ids.get(topic, f"id-{topic}") for topic in topics},
        {TopicPartition(*tp): PartitionExtent(*extent) for tp, extent in extents.items()},
    )
