"""The examples by name. Whoever adds one adds a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from include.examples import guarantees, kafka_to_kafka, two_phase_files, two_phase_mysql
from include.examples.lab import Lab


class Example(NamedTuple):
    """Args: run: runs it, and returns whether all is as it must be."""

    in_words: str
    run: Callable[[Lab], bool]


EXAMPLES: Mapping[str, Example] = {
    "two-phase-mysql": Example(
        "Kafka to MySQL by two phases with a plain INSERT, killed between prepare and commit; and an upsert beside it",
        two_phase_mysql.run,
    ),
    "kafka-to-kafka": Example(
        "Kafka to Kafka by transactions, with a read_committed reader and one who is not", kafka_to_kafka.run
    ),
    "guarantees": Example(
        "one stream at most once, at least once and exactly once: what each loses or doubles", guarantees.run
    ),
    "two-phase-files": Example(
        "a sink of the user's own with two phases: files that are written aside and published", two_phase_files.run
    ),
}
