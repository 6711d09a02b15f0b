"""What the batches of a ledger have read: an archive that is read instead of Kafka must still hold it. Pure.

Nobody can tell from offsets alone whether an archive is whole: Kafka leaves gaps between records by design. But each
committed batch says how many records it has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from include.protocol.batch import Batch, BatchKey
from include.protocol.ledger_events import BatchCommitted, BatchPlanned, Event
from include.protocol.ranges import OffsetRange, TopicPartition


@dataclass(frozen=True)
class ReadBefore:
    """Batches, the newest ones first, and how many records each has read. No offset is in two of them: where a later
    generation has read some again, the later batch is here. What is not known is not here.

    Args:
        ends: where all that any batch has read ends, by partition.
    """

    topic_ids: Mapping[str, str]
    batches: tuple[tuple[Batch, int], ...]
    ends: Mapping[TopicPartition, int]

    @classmethod
    def of(cls, events: Iterable[Event], topic_ids: Mapping[str, str]) -> ReadBefore:
        """Args: events: of a whole ledger. topic_ids: only topics with these ids count."""
        found: list[tuple[Batch, int]] = []
        lowest: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        for batch, commit in reversed([*committed(events)]):
            ranges = ranges_in(batch, topic_ids)
            for r in ranges:
                ends[r.topic_partition] = max(r.end_offset, ends.get(r.topic_partition, 0))
            is_new = all(r.end_offset <= lowest.get(r.topic_partition, r.end_offset) for r in ranges)
            if ranges and is_new and len(ranges) == len(batch.ranges) and commit.counts is not None:
                found.append((batch, commit.counts.read))
            for r in ranges:
                lowest[r.topic_partition] = min(r.start_offset, lowest.get(r.topic_partition, r.start_offset))
        return cls(topic_ids, tuple(found), ends)

    def since(self, offsets: Mapping[TopicPartition, int]) -> ReadBefore:
        """The batches that lie behind these offsets as a whole."""

        def is_behind(batch: Batch) -> bool:
            return all(r.start_offset >= offsets.get(r.topic_partition, r.end_offset) for r in batch.ranges)

        return ReadBefore(self.topic_ids, tuple(one for one in self.batches if is_behind(one[0])), self.ends)

    def newest(self, n: int) -> ReadBefore:
        """The `n` newest batches."""
        return ReadBefore(self.topic_ids, self.batches[:n], self.ends)

    @property
    def records(self) -> int:
        return sum(read for _, read in self.batches)

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        return tuple(r for batch, _ in self.batches for r in batch.ranges)

    @property
    def starts(self) -> dict[TopicPartition, int]:
        """Where these batches begin in every partition; in one that they have not read, where all that was read
        ends."""
        starts = dict(self.ends)
        for r in self.ranges:
            starts[r.topic_partition] = min(r.start_offset, starts[r.topic_partition])
        return starts


def ranges_in(batch: Batch, topic_ids: Mapping[str, str]) -> list[OffsetRange]:
    """What a batch reads of topics with these ids."""
    return [r for r in batch.ranges if batch.topic_ids.get(r.topic) == topic_ids.get(r.topic)]


def committed(events: Iterable[Event]) -> Iterator[tuple[Batch, BatchCommitted]]:
    """The batches of a ledger that have landed, in order, each with its commit."""
    planned: dict[BatchKey, Batch] = {}
    for event in events:
        match event:
            case BatchPlanned(batch):
                planned[batch.key] = batch
            case BatchCommitted() if (key := BatchKey(event.generation, event.batch_id)) in planned:
                yield planned[key], event
