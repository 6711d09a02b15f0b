"""Targets whose commits are written by hand, to test what is decided from a table's log: no Spark, no Kafka."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable

from include.control.coordinator import Coordinator
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline, find_pipeline
from include.protocol.batch import Batch
from include.protocol.participants import Stamp
from include.settings import Settings
from tests.support.batches import landed

LINEAGE_FIELDS = {"generation": pa.int64(), "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}


def coordinator_of(folder: Path, **sections: object) -> Coordinator:
    """The coordinator of a pipeline `p` whose lake is `folder`/lake."""
    places = {"HOME": folder, "LAKE": folder / "lake", "PIPELINES": folder / "pipelines"}
    settings = Settings.from_environment({f"LAKEMARK_{name}": str(place) for name, place in places.items()})
    given = {
        "source": {"bootstrap_servers": "k:1", "topics": ["t"], "schema": "id BIGINT"},
        "change": {"keys": ["id"]},
        "target": {"table": "lake://silver/p"},
    }
    return Coordinator(settings, Pipeline.model_validate({"name": "p", **given, **sections}))


def known_to_commands(coordinator: Coordinator, folder: Path, patch: pytest.MonkeyPatch) -> Coordinator:
    """The same pipeline from a file, as commands in this process find it. Args: folder: as for `coordinator_of`."""
    made = coordinator.pipeline.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "p.yaml").write_text(yaml.safe_dump(made))
    places = {"HOME": folder, "LAKE": folder / "lake", "PIPELINES": folder / "pipelines"}
    for name, place in places.items():
        patch.setenv(f"LAKEMARK_{name}", str(place))
    settings = Settings.from_environment()
    return Coordinator(settings, find_pipeline("p", settings.pipelines, settings.environment))


def make_target(coordinator: Coordinator, properties: dict[str, str] | None = None) -> Path:
    """The target without rows; returns where it lies."""
    schema = pa.schema([("id", pa.int64()), ("_lakemark", pa.struct(list(LINEAGE_FIELDS.items())))])
    DeltaTable.create(str(coordinator.tables.target), schema, configuration=properties, raise_if_key_not_exists=False)
    return Path(str(coordinator.tables.target))


def commit(target: Path, version: int, metadata: str | None = None, markers: dict[str, int] | None = None) -> None:
    """A commit without rows."""
    now = time.time_ns() // 1_000_000
    provenance = {"timestamp": now, "operation": "MERGE", "operationParameters": {}}
    metrics = {"numSourceRows": "5", "numTargetRowsInserted": "4"}
    actions: list[dict] = [{"commitInfo": {**provenance, "operationMetrics": metrics, "userMetadata": metadata}}]
    actions += [{"txn": {"appId": app_id, "version": n}} for app_id, n in (markers or {}).items()]
    file = target / "_delta_log" / f"{version:020}.json"
    file.write_text("".join(json.dumps(action) + "\n" for action in actions))


def land(target: Path, version: int, batch: Batch) -> None:
    """The commit of a batch."""
    commit(target, version, landed(batch).metadata.dumps(), {batch.app_id: batch.batch_id})


def stray(uri: LakeUri, batch: Batch, revision: int = 0) -> None:
    """A commit without rows in the quarantine, of an attempt that never landed; makes the table if there is none."""
    if not DeltaTable.is_deltatable(str(uri)):
        DeltaTable.create(str(uri), pa.schema([("generation", pa.int64()), ("batch_id", pa.int64())]))
    metadata = replace(landed(batch).metadata, role="quarantine", digest="of this attempt")
    version = DeltaTable(str(uri)).version() + 1
    commit(Path(str(uri)), version, metadata.dumps(), {batch.app_id: Stamp(batch.batch_id, revision).number})


def clean_log(target: Path) -> None:
    """As Delta's log clean-up does once all commits are old: a checkpoint, and no commit before it."""
    table = DeltaTable(target)
    table.create_checkpoint()
    for version in range(table.version()):
        (target / "_delta_log" / f"{version:020}.json").unlink()
