"""`make bench-savepoints`: what keeping a state and going back to it costs, beside a copy of the table's folder.

No Spark and no Kafka: the tables are made by hand, and a stand-in says what Kafka holds. Commands run as a person runs
them, each in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import yaml
from deltalake import DeltaTable, write_deltalake

from include.checkpoints.restoring import Restoring
from include.control import coordinator as planning
from include.control import settling
from include.control.coordinator import Coordinator
from include.protocol.ledger_events import BatchPlanned
from include.savepoints.restoring import restoring
from tests.support.batches import batch, committed, source
from tests.support.tables_before import begun_with, with_tables

WORKS = {"1,000 files": (1_000, 1_000), "5M rows": (10, 500_000), "7 GB": (40, 8_000_000)}  # files, rows in each
_IN_KAFKA = source({("t", 0): (0, 20)})


def table_of(folder: Path, files: int, rows: int) -> Coordinator:
    """A pipeline whose first batch has left a table of so many files, and whose second has replaced a file."""
    found = with_tables(folder)
    target = str(found.tables.target)
    Path(target).mkdir(parents=True)
    chance = np.random.default_rng(1)
    for number in range(files):
        ids = np.arange(number * rows, (number + 1) * rows)
        texts = chance.integers(0, 1 << 62, rows)
        write_deltalake(target, pa.table({"id": ids, "seq": texts, "more": chance.random(rows)}), mode="append")
    DeltaTable(target).create_checkpoint()
    version = DeltaTable(target).version()
    DeltaTable(target).delete("id = 0")
    first, second = batch(0), batch(1)
    of_first, of_second = (
        replace(
            committed(of),
            table_version=at,
            table_id=str(DeltaTable(target).metadata().id),
            committed_at=datetime.now(UTC).isoformat(),
            positions={},
        )
        for of, at in ((first, version), (second, version + 1))
    )
    events = [begun_with(first), BatchPlanned(first), of_first, BatchPlanned(second), of_second]
    found.ledger.append(lambda state: events)
    made = found.pipeline.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "p.yaml").write_text(yaml.safe_dump(made))
    return found


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measured(folder: Path, files: int, rows: int) -> dict[str, float]:
    found = table_of(folder, files, rows)
    target = Path(str(found.tables.target))
    environment = {**os.environ, **found.settings.child_environment()}

    def command(*arguments: str) -> Callable[[], object]:
        told = [str(Path(sys.executable).with_name("lakemark")), "savepoint", *arguments]
        return lambda: subprocess.run(told, env=environment, check=True, capture_output=True)

    for module in (planning, settling):
        module.source_extent = lambda declared: _IN_KAFKA  # type: ignore[attr-defined]
    size = sum(file.stat().st_size for file in target.rglob("*.parquet"))
    print(f"{files:,} files, {files * rows:,} rows, {size / 1e9:.2f} GB", flush=True)
    told = {
        "create, a pin": seconds(command("create", "p", "--name", "pin", "--at", "0")),
        "create, a copy": seconds(command("create", "p", "--name", "copy", "--at", "0", "--copy")),
        "list": seconds(command("list", "p")),
        "verify": seconds(command("verify", "p", "copy")),
        "verify --deep": seconds(command("verify", "p", "copy", "--deep")),
        "restore": seconds(lambda: _back(found).restore()),
        "cp -r": seconds(lambda: shutil.copytree(target, folder / "cp")),
    }
    shutil.rmtree(folder / "cp")
    return told


def _back(found: Coordinator) -> Restoring:
    return restoring(found.settings, found.pipeline, "pin", reason="a bench", started_by="a bench")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("works", nargs="*", choices=[[], *WORKS], help="which ones; all if none")  # Python 3.11
    for name in parser.parse_args().works or WORKS:
        with tempfile.TemporaryDirectory() as folder:
            told = measured(Path(folder), *WORKS[name])
        for what, took in told.items():
            print(f"  {what:16} {took:8.2f} s   {took / told['cp -r']:6.2f} x cp -r", flush=True)


if __name__ == "__main__":
    main()
