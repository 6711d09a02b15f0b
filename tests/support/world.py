"""A small world for tests: a real broker, a warm Spark server, and per test a lake, pipelines and topics of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession

from include.control.coordinator import Coordinator
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline, find_pipeline
from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import BatchKey
from include.protocol.counts import BatchCounts
from include.protocol.ledger_events import BatchCommitted
from include.settings import PROJECT_ROOT, Settings
from spark_jobs.attempt.attempt import Attempt, AttemptResult
from spark_jobs.engine.session import open_session
from spark_jobs.tables.creating import ensure
from tests.support.readers import by_deltalake, opened
from tests.support.topics import Sent, Topics

PLACE = ("topic", "partition", "offset")  # in the lineage of a row
LAKEMARK = str(Path(sys.executable).parent / "lakemark")


@dataclass
class World(Topics):
    settings: Settings = field(kw_only=True)

    # pipelines

    def pipeline(self, topic: str, name: str | None = None, **sections: Any) -> Pipeline:
        """Writes a pipeline file and loads it; `source`, `change`, `target` are merged over small defaults, anything
        else is as given."""
        name = name or f"p_{uuid.uuid4().hex[:8]}"
        data: dict[str, Any] = {
            "name": name,
            "source": {
                "bootstrap_servers": "${KAFKA_BOOTSTRAP_SERVERS}",
                "topics": [topic],
                "schema": "id BIGINT, seq BIGINT, name STRING, op STRING",
                "limits": {"records_per_batch_max": 1000},
            },
            "change": {"keys": ["id"], "order_by": ["seq"]},
            "target": {"table": f"lake://silver/{name}"},
        }
        for section, changes in sections.items():
            data[section] = {**data[section], **changes} if section in data else changes
        path = self.settings.pipelines / f"{name}.yaml"
        path.write_text(yaml.safe_dump(data))
        return self.load(name)

    def load(self, name: str) -> Pipeline:
        return find_pipeline(name, self.settings.pipelines, self.settings.environment)

    def write_suite(self, name: str, rules: Iterable[dict[str, Any]]) -> None:
        """Writes a quality suite, as Great Expectations would."""
        self.settings.expectations.mkdir(exist_ok=True)
        suite = {"name": name, "expectations": list(rules), "meta": {"great_expectations_version": "1.24.1"}}
        (self.settings.expectations / f"{name}.json").write_text(json.dumps(suite))

    def coordinator(self, pipeline: Pipeline) -> Coordinator:
        return Coordinator(self.settings, pipeline)

    def session(self) -> AbstractContextManager[SparkSession]:
        return open_session(self.settings, self.settings.spark_remote, None)

    def key(self, pipeline: Pipeline, batch_id: int) -> BatchKey:
        """A batch of the current generation."""
        return BatchKey(self.coordinator(pipeline).ledger.state().generation, batch_id)

    def settle(self, pipeline: Pipeline, batch_id: int) -> BatchCommitted:
        return self.coordinator(pipeline).settle(self.key(pipeline, batch_id))

    def create_target(self, pipeline: Pipeline) -> None:
        with self.session() as spark:
            ensure(spark, self.coordinator(pipeline).tables.target, TableSpec.of_target(pipeline))

    def attempt(self, pipeline: Pipeline, batch_id: int, **changes: Any) -> AttemptResult:
        key = self.key(pipeline, batch_id)
        attempt = Attempt(self.settings, pipeline, key, self.session, "test", lambda fact: None)
        return replace(attempt, **changes).run()

    def run_batch(self, pipeline: Pipeline, ignore_merge_every: bool = False) -> AttemptResult | None:
        """Plan, merge and settle one batch; None when there is nothing new."""
        planned = self.coordinator(pipeline).plan(ignore_merge_every)
        batch = getattr(planned, "batch", None)
        if batch is None:
            return None
        result = self.attempt(pipeline, batch.batch_id)
        self.settle(pipeline, batch.batch_id)
        return result

    def counts(self, pipeline: Pipeline) -> BatchCounts:
        """Where the records of the last batch went."""
        commit = self.coordinator(pipeline).ledger.state().batches[-1].commit
        assert commit is not None
        assert commit.counts is not None
        return commit.counts

    def drain(self, pipeline: Pipeline, ignore_merge_every: bool = False) -> int:
        """Runs batches until there is nothing new; returns how many."""
        batches = 0
        while self.run_batch(pipeline, ignore_merge_every) is not None:
            batches += 1
        return batches

    def sent_to(self, pipeline: Pipeline) -> list[Sent]:
        """What was sent to the pipeline's topics, of all that this world has sent."""
        return [record for record in self.sent if record.topic in pipeline.source.topics]

    # processes

    def lakemark(self, *arguments: str, timeout: int = 300, **environment: str) -> subprocess.CompletedProcess[str]:
        """The command, as a process that sees this world. Args: timeout: in seconds."""
        return subprocess.run(
            [LAKEMARK, *arguments],
            cwd=PROJECT_ROOT,
            env=self.settings.child_environment(**environment),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def start(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        """A process of its own session that sees this world; standard error goes with standard output."""
        return subprocess.Popen(
            command,
            cwd=PROJECT_ROOT,
            env=self.settings.child_environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def job(self, pipeline: Pipeline, key: BatchKey, **environment: str) -> subprocess.Popen[str]:
        """An attempt at a planned batch, as a process: on the warm server, or on a JVM of its own if the environment
        says something to that."""
        spark = ["--master", "local[2]"]
        if "JAVA_TOOL_OPTIONS" not in environment:
            assert self.settings.spark_remote is not None
            spark = ["--remote", self.settings.spark_remote]
        what = ["--pipeline", pipeline.name, "--generation", str(key.generation), "--batch", str(key.batch_id), *spark]
        return self.start(sys.executable, "-m", "spark_jobs.merge_job", *what, **environment)

    # tables

    def rows(self, pipeline: Pipeline) -> list[dict[str, Any]]:
        return read_table(self.coordinator(pipeline).tables.target)

    def quarantine(self, pipeline: Pipeline) -> list[dict[str, Any]]:
        return read_table(self.coordinator(pipeline).tables.quarantine)

    def table(self, pipeline: Pipeline, participant: str) -> LakeUri:
        """Where a table lies that the pipeline's batches write. Args: participant: its name in the catalog."""
        [found] = (p for p in Catalog.of(pipeline).participants if p.name == participant)
        return found.uri(self.settings)

    def version(self, pipeline: Pipeline) -> int:
        return opened(self.coordinator(pipeline).tables.target).version()

    def on_disk(self, uri: LakeUri | str) -> Path:
        """Where something in the lake is kept, so that a test can do harm by hand: on a local lake itself, else in the
        folder of the store's server."""
        scheme, found, key = str(uri).partition("://")
        return self.settings.home / scheme / "objects" / key if found else Path(scheme)


def changes(ids: range, seq: int, name: str = "n", op: str = "u") -> list[dict[str, Any]]:
    return [{"id": i, "seq": seq, "name": f"{name}{i}", "op": op} for i in ids]


def landed_commits(world: World, pipeline: Pipeline) -> list[int]:
    log = TableLog.open(world.coordinator(pipeline).tables.target)
    return [c.metadata.batch.batch_id for c in log.landed_commits(pipeline.name, 1)] if log else []


def read_table(path: LakeUri | str) -> list[dict[str, Any]]:
    try:
        return by_deltalake(str(path))
    except TableNotFoundError:  # not yet, or its creation is under way
        return []


def newest_by_key(sent: Iterable[Sent], order: str | None = "seq") -> dict[int, dict[str, Any]]:
    """The oracle of the small pipelines: last change per id wins. Knows nothing of the product."""
    best: dict[int, tuple[tuple, dict[str, Any]]] = {}
    for record in sent:
        place = (record.value[order] if order else 0, record.topic, record.partition, record.offset)
        key = record.value["id"]
        if key not in best or place > best[key][0]:
            best[key] = (place, record.value)
    return {key: value for key, (_, value) in best.items()}


def states_by_key(sent: Iterable[Sent]) -> dict[int, list[tuple[int, int | None, str]]]:
    """The oracle of their history, by id: from when and until when (in `seq`) a name was valid. No deletes."""
    found: dict[int, list[tuple[int, int | None, str]]] = {}
    by_order = sorted(sent, key=lambda r: (r.value["seq"], r.topic, r.partition, r.offset))
    for key in {record.value["id"] for record in sent}:
        states = [s for s, _ in groupby((r.value["seq"], r.value["name"]) for r in by_order if r.value["id"] == key)]
        ends = [*(since for since, _ in states[1:]), None]
        found[key] = [(since, end, name) for (since, name), end in zip(states, ends, strict=True)]
    return found


def as_states(rows: Iterable[dict[str, Any]]) -> dict[int, list[tuple[int, int | None, str]]]:
    """The same from a table of history; checks that each key has one current row."""
    found: dict[int, list[tuple[int, int | None, str]]] = {}
    for row in sorted(rows, key=lambda row: (row["seq"], *(row["_lakemark"][n] for n in PLACE))):
        if row["valid_from"] is not None:
            found.setdefault(row["id"], []).append((row["valid_from"], row["valid_to"], row["name"]))
            assert row["is_current"] == (row["valid_to"] is None)
    return found


def as_dict(rows: Iterable[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Rows by id without lineage and tombstones; two rows of one id are an error."""
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["_lakemark"]["deleted"]:
            continue
        assert row["id"] not in found, f"two rows of id {row['id']}"
        found[row["id"]] = {name: value for name, value in row.items() if name != "_lakemark"}
    return found
