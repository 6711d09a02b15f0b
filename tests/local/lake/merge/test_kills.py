"""A lane that is killed anywhere leaves a whole batch or none, and the next one goes on. A real process, real kills."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from include.lake.merge.snapshot import Snapshot
from include.lake.uri import LakeUri
from include.settings import PROJECT_ROOT
from tests.local.lake.merge.busy_lane import APP, keys_of
from tests.local.lake.merge.test_upsert import by_deltalake, by_duckdb, make_table


@pytest.mark.parametrize("kills", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_whenever_it_is_killed_a_batch_is_there_in_full_or_not_at_all(tmp_path: Path, kills: int) -> None:
    uri, chance = LakeUri(str(tmp_path / "t")), random.Random(kills)
    make_table(str(uri), {"bigint": pa.int64()})
    truth: dict[tuple[int], str] = {}
    landed = -1
    for _ in range(kills):
        command = [sys.executable, "-m", "tests.local.lake.merge.busy_lane", str(uri)]
        with subprocess.Popen(command, cwd=PROJECT_ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"%d\n" % (landed + 1)
            threading.Event().wait(chance.uniform(0, 0.2))  # somewhere in a batch
            process.kill()
        table = Snapshot.of(uri)
        for number in range(landed + 1, table.markers.get(APP, -1) + 1):
            truth |= {(key,): str(number) for key in keys_of(number)}
        landed = table.markers.get(APP, -1)
        assert by_deltalake(str(uri), ["bigint"]) == truth
    assert by_duckdb(str(uri), ["bigint"]) == truth
    assert landed >= kills - 1
