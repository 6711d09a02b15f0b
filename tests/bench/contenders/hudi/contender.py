"""Hudi, in a Spark 3.5 of its own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from include.installation.jars import jar_paths
from include.installation.java import find_java
from include.settings import PROJECT_ROOT
from tests.bench.contenders.contender import Contender

_PYTHON = PROJECT_ROOT / ".lakemark" / "hudi" / "bin" / "python"  # `make bench` sets it up


@dataclass
class HudiUpsert(Contender):
    """Its streaming upserts, in a process that is as warm as the others' (see `upserts.py`)."""

    name = "Hudi upsert"
    _process: subprocess.Popen[str] | None = None

    def lay(self) -> None:
        folder = f"{self.table}.first"
        self.arena.feed.first_rows(self.arena.spark).write.parquet(folder)
        self._asked(f"first {folder}")

    def run(self) -> float:
        return self._asked("upsert")

    def digest(self) -> tuple[int, int]:
        count, digest = self._asked("digest")
        return count, digest

    def close(self) -> None:
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()

    def _asked(self, command: str) -> Any:
        if self._process is None:
            self._process = self._started()
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"Hudi's process ended: {Path(f'{self.table}.log').read_text()[-4000:]}"
        return json.loads(answer)

    def _started(self) -> subprocess.Popen[str]:
        arena, settings = self.arena, self.arena.settings
        task = {
            "jars": [str(path) for path in jar_paths(settings.jars, "hudi")],
            "bootstrap_servers": arena.bootstrap_servers,
            "topic": arena.topic,
            "batch": arena.batch,
            "path": self.table,
            "schema": arena.feed.schema,
            "columns": arena.feed.columns,
            "keys": arena.feed.keys,
            "order": arena.feed.order,
        }
        command = [str(_PYTHON), str(Path(__file__).with_name("upserts.py")), json.dumps(task)]
        environment = {**os.environ, "JAVA_HOME": str(find_java(settings.java, settings.home / "java").home)}
        for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYTHONPATH"):  # of this Spark, not of that
            environment.pop(name, None)
        with Path(f"{self.table}.log").open("w") as log:
            pipe = subprocess.PIPE
            return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True, env=environment)
