"""Which rows Kafka's records can prove: what was applied, what Kafka still holds of it, and the rows beyond. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from include.audit.standing import still_there
from include.lake.sql import sql_text
from include.pipeline_file import LINEAGE
from include.protocol.batch import Batch
from include.protocol.ledger_events import PROMOTION, GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import SourceExtent
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.rows_gone import is_gone, versions_gone
from include.protocol.settlement import LandedCommit


class Applied(NamedTuple):
    """A batch that has landed and is still in the table: what it read of topics that are still the same."""

    batch: Batch
    ranges: Sequence[OffsetRange]


def applied_to_target(state: LedgerState, commits: Sequence[LandedCommit], source: SourceExtent) -> list[Applied]:
    """The batches that have landed in the target.

    Args:
        commits: those that the target's log still has.
    """
    applied = [Applied(record.batch, _same_topics(record.batch, source)) for record in state.batches if record.commit]
    promotion = next((g for g in reversed(state.generations) if g.is_promotion), None)
    reached = _reached_by(promotion, state) if promotion is not None else {}
    gone = versions_gone(g for g in state.generations if not g.is_promotion)  # what was there before that one is proven
    for commit in commits:
        if _is_replay(commit.metadata.batch, state) or is_gone(commit.table_version, gone):
            continue
        found = _same_topics(commit.metadata.batch, source)
        if (
            promotion is not None
            and promotion.target_version is not None
            and commit.table_version <= promotion.target_version
        ):
            # A promoted table has taken the place of what landed before: it reaches as far as this, and no further.
            ends = {r: min(r.end_offset, reached.get(r.topic_partition, 0)) for r in found}
            found = [replace(r, end_offset=end) for r, end in ends.items() if r.start_offset < end]
        applied.append(Applied(commit.metadata.batch, found))
    return applied


def _reached_by(promotion: GenerationStarted, state: LedgerState) -> Mapping[TopicPartition, int]:
    """Where a promoted table ends. The pipeline may go on from further back."""
    record = state.backfills.get(int(promotion.origin.removeprefix(PROMOTION)))
    return record.backfill.next_offsets if record is not None else promotion.start_offsets


def applied_beside(
    state: LedgerState,
    to_target: Sequence[Applied],
    commits: Sequence[LandedCommit],
    since: datetime | None,
    source: SourceExtent,
) -> list[Applied]:
    """The batches that have landed in a table beside the target, which the file may have named later.

    A batch that has not landed in the target does not count: another attempt may set aside other records.

    Args:
        to_target: the batches that have landed in the target. commits: those that the table's own log still has.
        since: when the table was made, if its log no longer goes back to that; None: the log has all of its commits.
    """
    landed = {applied.batch.key for applied in to_target}
    batches = [c.metadata.batch for c in still_there(commits) if c.metadata.batch.key in landed]
    if since is not None:
        ended = ((record.batch, record.commit.committed_at) for record in state.batches if record.commit)
        batches += [batch for batch, at in ended if at is not None and datetime.fromisoformat(at) >= since]
    return [Applied(batch, _same_topics(batch, source)) for batch in batches]


def _is_replay(batch: Batch, state: LedgerState) -> bool:
    """Whether the batch read single records of its ranges, which other batches had read before."""
    backfill = state.backfills.get(-batch.generation)
    return backfill is not None and backfill.backfill.records is not None


def _same_topics(batch: Batch, source: SourceExtent) -> list[OffsetRange]:
    if batch.cluster_id != source.cluster_id:
        return []
    return [r for r in batch.ranges if batch.topic_ids[r.topic] == source.topic_ids.get(r.topic)]


def is_of_current_topic(source: SourceExtent) -> str:
    """SQL condition on a quarantined record: its topic is the one that Kafka has under that name."""
    present = ", ".join(f"({sql_text(topic)}, {sql_text(id_)})" for topic, id_ in sorted(source.topic_ids.items()))
    return f"topic_id IS NULL OR (topic, topic_id) IN ({present})" if present else "false"


def is_of_gone_topic(state: LedgerState, commits: Sequence[LandedCommit], source: SourceExtent) -> str:
    """SQL condition on a row: its topic was re-created since, so its offset is another record's now."""
    lineage = f"t.{LINEAGE}"
    found = {
        f"({lineage}.topic = {sql_text(topic)} AND {lineage}.generation > 0 AND {lineage}.generation < {g.generation})"
        for g in state.generations
        for topic in g.recreated
    }
    batches = [commit.metadata.batch for commit in commits]
    batches += [record.backfill.batch(0) for record in state.backfills.values()]
    for batch in batches:
        for topic, id_ in batch.topic_ids.items():
            if id_ != source.topic_ids.get(topic):
                found.add(f"({lineage}.topic = {sql_text(topic)} AND {lineage}.generation = {batch.generation})")
    return " OR ".join(sorted(found)) or "false"


def may_be_of_gone_topic(state: LedgerState, commits: Sequence[LandedCommit], source: SourceExtent) -> str:
    """SQL condition on a row: a replay wrote it, and its topic was re-created at some time. Its record may be the old
    topic's: the quarantine keeps those, and the replay's batch knows only the new topic's id."""
    topics = topics_made_anew(state, commits, source)
    replays = sorted(-n for n, record in state.backfills.items() if record.backfill.records is not None)
    if not topics or not replays:
        return "false"
    named, lineage = ", ".join(map(sql_text, sorted(topics))), f"t.{LINEAGE}"
    return f"{lineage}.topic IN ({named}) AND {lineage}.generation IN ({', '.join(map(str, replays))})"


def topics_made_anew(state: LedgerState, commits: Sequence[LandedCommit], source: SourceExtent) -> frozenset[str]:
    """The topics whose offsets were other records' at some time."""
    topics = {topic for generation in state.generations for topic in generation.recreated}
    for commit in commits:
        ids = commit.metadata.batch.topic_ids
        topics |= {topic for topic, id_ in ids.items() if id_ != source.topic_ids.get(topic)}
    return frozenset(topics)


def held_by_kafka(ranges: Iterable[OffsetRange], source: SourceExtent) -> list[OffsetRange]:
    """What Kafka still holds of the ranges, merged where they touch or overlap."""
    held: list[OffsetRange] = []
    for r in sorted(set(ranges)):
        extent = source.partitions.get(r.topic_partition)
        start, end = (max(r.start_offset, extent.log_start_offset), r.end_offset) if extent else (0, 0)
        if start >= end:
            continue
        last = held[-1] if held else None
        if last and last.topic_partition == r.topic_partition and start <= last.end_offset:
            held[-1] = OffsetRange(*r.topic_partition, last.start_offset, max(last.end_offset, end))
        else:
            held.append(OffsetRange(*r.topic_partition, start, end))
    return held
