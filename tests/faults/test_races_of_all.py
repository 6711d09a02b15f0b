"""Writers of every kind commit to one table at the same time: no commit is lost, and none is overwritten."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from subprocess import Popen

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from include.lake.stores import log_store_of
from include.lake.uri import LakeUri
from spark_jobs.engine.failures import is_conflict
from tests.support.racers import SCHEMA
from tests.support.readers import opened, options_of
from tests.support.world import World

pytestmark = [pytest.mark.slow, pytest.mark.on_both_lakes]
# Names of writers and how many commits each makes. Eight of them, more than 2,000 commits, of these 220 by Spark.
PROCESSES = {**dict.fromkeys(("deltalake-0", "deltalake-1"), 400), "fence-0": 150}
PROCESSES |= dict.fromkeys(("lane-0", "lane-1", "lane-2"), 310)
BY_SPARK = dict.fromkeys(("spark-0", "spark-1"), 110)


def by_spark(world: World, table: LakeUri, racing: list[Popen[str]], name: str, commits: int) -> None:
    with world.session() as spark:
        for number in range(1, commits + 1):
            assert not any(process.poll() for process in racing), "another writer has failed"
            while True:
                try:
                    spark.sql(f"INSERT INTO delta.`{table}` VALUES ('{name}', {number})").collect()
                    break
                except Exception as error:
                    assert is_conflict(error), error


@pytest.mark.timeout(3000)
def test_i5_of_two_thousand_commits_by_eight_writers_none_is_lost_and_none_overwritten(
    world: World, zombies: list
) -> None:
    table = world.settings.lake / "silver/raced"
    DeltaTable.create(str(table), SCHEMA, storage_options=options_of(table))
    began = time.monotonic()
    racing = {
        name: world.start(
            *(sys.executable, "-m", "tests.support.racers", name.partition("-")[0], str(table), name, str(commits))
        )
        for name, commits in PROCESSES.items()
    }
    zombies += racing.values()
    with ThreadPoolExecutor(len(BY_SPARK)) as sessions:
        by_jvm = [sessions.submit(by_spark, world, table, [*racing.values()], *one) for one in BY_SPARK.items()]
    said = {name: process.communicate(timeout=2400)[0] for name, process in racing.items()}
    failed = {name: said[name] for name, process in racing.items() if process.returncode}
    assert not failed, "\n".join(failed.values())
    assert all(one.result() is None for one in by_jvm)
    seconds = time.monotonic() - began
    told = {name: {int(v): n for v, n in json.loads(text.splitlines()[-1]).items()} for name, text in said.items()}

    expected = PROCESSES | BY_SPARK
    found = opened(table)
    assert found.version() == sum(expected.values()), "every commit has a version of its own"
    rows = pa.table(QueryBuilder().register("t", found).execute("select writer, number from t").read_all())
    shown = Counter((row["writer"], row["number"]) for row in rows.to_pylist())
    with_rows = {name: commits for name, commits in expected.items() if not name.startswith("fence")}
    assert shown == Counter((name, n) for name, commits in with_rows.items() for n in range(1, commits + 1))
    log, markers = log_store_of(table), Counter[tuple[str, int, int]]()
    for version in range(found.version() + 1):
        content = log.read(version)
        assert content is not None
        for line in content.splitlines():
            if (marker := json.loads(line).get("txn")) and marker["appId"] in told:
                markers[marker["appId"], marker["version"], version] += 1
    assert markers == Counter((name, n, v) for name, of in told.items() for v, n in of.items()), "as each was told"
    total = sum(expected.values())
    print(f"{total} commits by {len(expected)} writers in {seconds:.0f} s: {total / seconds:.1f} a second")
