"""Makes the fixtures of the upgrade test, with the version that is checked out (one installation: over 300 lines):

    python -m tests.upgrade.make_fixtures

Run it by hand, once for a release, and commit both files. It does not replace the files of a version that has some:
those of 0.1.0 were made by an earlier form of this script, which imported that version's own modules. It needs Java and
the JARs (`make setup-dev`), starts a broker and a Spark server of its own, and takes about four minutes. It writes

    tests/upgrade/vVERSION.tar.xz   a small installation as users have it: pipeline files, transforms, suites (those in
                                    `tests/upgrade/project`), the lake with ledgers, and the broker's data
    tests/upgrade/vVERSION.json     what this version itself says about it (see `facts`)

`build` is the story of that lake. Nothing in the archive names a folder of this machine; that is checked.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from include.cli.command import main
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import table_uri
from include.protocol.errors import QualityGate
from include.settings import PROJECT_ROOT
from include.sources.kafka import KafkaSource
from tests.conftest import stack_in, world_in
from tests.support.stopped import was_killed
from tests.support.world import World, changes
from tests.upgrade.facts import SECTIONS, pipelines_of

HERE = Path(__file__).parent
PROJECT = HERE / "project"
FOLDERS = ("pipelines", "transforms", "expectations")
TOPICS = {"accounts": 2} | dict.fromkeys(
    ("orders", "customers", "clients", "devices", "bookings", "events", "order-lines", "shop"), 1
)


def build(world: World) -> None:
    for topic, partitions in TOPICS.items():
        world.create_topic(topic, partitions)
    orders(world)
    accounts(world)
    customers(world)
    clients(world)
    devices(world)
    bookings(world)
    events(world)
    order_lines(world)
    shop(world)


def orders(world: World) -> None:
    """Two generations with a kept state each, an archive, bad records, tombstones; a batch is planned and not run."""
    pipeline = world.load("orders")
    send(world, "orders", [order(1, "new"), order(2, "new"), order(3, "test"), (None, b"{"), order(4, "new")])
    run(world, pipeline)
    for n in range(5):
        send(world, "orders", [order(1, f"step {n}"), ({"id": 2}, None) if n == 3 else order(10 + n, "new")])
        run(world, pipeline)
    command("reset", "orders", "--reason", "a new generation")
    for n in range(5, 10):
        send(world, "orders", [order(1, f"step {n}"), (None, b"[") if n == 7 else order(n, "late")])
        run(world, pipeline)
    send(world, "orders", [order(1, "waits"), ({"id": 4}, None), order(20, "waits")])
    world.coordinator(pipeline).plan()


def order(number: int, status: str) -> tuple[dict, dict]:
    row = {"id": number, "status": status, "amount": f"{number}.50", "changed_at": "2026-01-02T03:04:05.678Z"}
    return {"id": number}, row


def accounts(world: World) -> None:
    """Deletes by a flag; a new table has taken the target's place; after that its tombstones were purged."""
    pipeline = world.load("accounts")
    world.produce("accounts", [*changes(range(6), 1), b"{"], 2)
    run(world, pipeline)
    world.produce("accounts", [*changes(range(2), 2, op="d"), *changes(range(4, 8), 2, "m")], 2)
    run(world, pipeline)
    command("backfill", "accounts", "--into-new-table", "--reason", "made anew")
    world.produce("accounts", [*changes(range(2, 3), 3, op="d"), *changes(range(5, 6), 3, "o")], 2)
    run(world, pipeline)
    world.produce("accounts", changes(range(6, 7), 4, "p"), 2)
    run(world, pipeline)
    command("maintain", "accounts")
    world.produce("accounts", changes(range(7, 9), 5, "q"), 2)
    run(world, pipeline)


def customers(world: World) -> None:
    """History as the target; offsets that were given up; backfills: applied, cancelled, and one that was killed."""
    pipeline = world.load("customers")
    world.produce("customers", [*changes(range(3), 2), *changes(range(3), 4, "m")], 1)
    run(world, pipeline)
    world.produce("customers", [b"poison", *changes(range(2), 3, "late")], 1)
    command("ledger", "skip", "customers", "--range", "customers-0:6-7", "--reason", "poison")
    run(world, pipeline)
    command("backfill", "customers", "--batches", "0-0", "--reason", "again")
    several = ("--range", "customers-0:0-6", "--records-per-chunk", "3")
    killed(world, "backfill", "customers", *several, LAKEMARK_TEST_FAULT="attempt.before_merge=kill")
    command("backfill", "customers", "--cancel", "2")
    killed(world, "backfill", "customers", *several, LAKEMARK_TEST_FAULT="attempt.before_merge=kill@2")


def clients(world: World) -> None:
    """History beside the target; a ledger that was made anew."""
    pipeline = world.load("clients")
    world.produce("clients", [*changes(range(3), 1), *changes(range(2), 3, "m")], 1)
    run(world, pipeline)
    shutil.rmtree(str(world.coordinator(pipeline).ledger.uri))
    command("ledger", "rebuild", "clients", "--reason", "lost")
    world.produce("clients", [*changes(range(1, 3), 2, "late"), *changes(range(3, 4), 4)], 1)
    run(world, pipeline)


def devices(world: World) -> None:
    """Rows that remember which change set which column."""
    pipeline = world.load("devices")
    patches = [
        {"id": "a", "seq": 1, "name": "lamp", "room": "hall"},
        {"id": "b", "seq": 1, "name": "plug"},
        {"id": "c", "seq": 1, "name": "fan", "gone": False},
        {"id": "a", "seq": 3, "room": None},
    ]
    world.produce("devices", patches, 1)
    run(world, pipeline)
    world.produce("devices", [{"id": "d", "old_id": "b", "seq": 2, "room": "attic"}, {"id": "a", "seq": 2}], 1)
    run(world, pipeline)


def bookings(world: World) -> None:
    """Two tables; an attempt was killed when it had written one of them."""
    pipeline = world.load("bookings")
    send(world, "bookings", [booking(1, "sale"), booking(2, "refund"), booking(3, "sale"), (None, b"no")])
    run(world, pipeline)
    send(world, "bookings", [booking(4, "refund"), booking(5, "sale"), ({"id": 2}, None), ({"id": 3}, None)])
    killed(world, "run", "bookings", LAKEMARK_TEST_FAULT="attempt.part_landed=kill@2")


def booking(number: int, kind: str) -> tuple[dict, dict]:
    return {"id": number}, {"id": number, "kind": kind, "amount": number / 4}


def events(world: World) -> None:
    """Two batches have landed and are merged; one more has landed; and one that nobody has settled."""
    pipeline = world.load("events")
    landing = pipeline.landing
    assert landing is not None
    for seq in (1, 2):
        world.produce("events", changes(range(seq, seq + 4), seq), 1)
        run(world, landing)
    run(world, pipeline)
    world.produce("events", changes(range(4), 3, "m"), 1)
    run(world, landing)
    world.produce("events", changes(range(2), 4, "o"), 1)
    planned = world.coordinator(landing).plan()
    world.attempt(landing, planned.batch.batch_id)


def order_lines(world: World) -> None:
    """A batch is planned with the prices that there were then."""
    pipeline = world.load("order_lines")
    write_prices(world, lamp="10.00", plug="2.50")
    world.produce("order-lines", [lines(1, 1, lamp=2, plug=4), lines(2, 1, desk=1, lamp=1)], 1)
    run(world, pipeline)
    world.produce("order-lines", [lines(1, 2, lamp=3), lines(3, 1, plug=2), b"{"], 1)
    world.coordinator(pipeline).plan()
    write_prices(world, lamp="99.00", plug="99.00", desk="99.00")


def write_prices(world: World, **price: str) -> None:
    rows = {"article": list(price), "price": [Decimal(text) for text in price.values()]}
    schema = pa.schema({"article": pa.string(), "price": pa.decimal128(9, 2)})
    write_deltalake(str(table_uri(world.settings, "lake://silver/prices")), pa.table(rows, schema), mode="overwrite")


def lines(number: int, seq: int, **pieces: int) -> dict[str, Any]:
    return {"id": number, "seq": seq, "items": [{"article": a, "pieces": n} for a, n in pieces.items()]}


def shop(world: World) -> None:
    """A gate that held a batch; records in the quarantine: replayed, discarded, and waiting."""
    pipeline = world.load("shop")
    suite = world.settings.expectations / "shop.json"
    text = suite.read_text()
    world.produce("shop", [*goods(range(1, 5), 1), good(5, 1, name=None), good(6, 1, price=500.0)], 1)
    suite.write_text(text.replace('"min_value": 2', '"min_value": 20').replace('"warn"', '"fail"'))
    with pytest.raises(QualityGate):
        world.run_batch(pipeline)
    suite.write_text(text)
    run(world, pipeline)
    suite.write_text(text.replace('"max_value": 100', '"max_value": 900'))
    command("quarantine", "replay", "shop", "--reason", "prices may be high")
    suite.write_text(text)
    command("quarantine", "discard", "shop", "--reason", "nobody knows what it was")
    world.produce("shop", [good(1, 2), good(2, 2, price=300.0), good(7, 1, price=400.0), good(8, 1, name=None)], 1)
    run(world, pipeline)
    world.produce("shop", [good(9, 1, price=5.0), good(2, 3)], 1)
    run(world, pipeline)
    command("quality", "check", "shop", code=1)  # what was replayed breaks it


def good(number: int, seq: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "seq": seq, "name": f"good {number}", "price": 1.5, **more}


def goods(numbers: range, seq: int) -> list[dict[str, Any]]:
    return [good(number, seq) for number in numbers]


# How the story is told


def send(world: World, topic: str, records: Iterable[tuple[dict | None, dict | bytes | None]]) -> None:
    """Records with Kafka keys, and a header each, into the one partition."""
    found = list(records)
    world.produce(topic, [v for _, v in found], 1, keys=[k for k, _ in found], headers=[("from", b"the fixture")])


def run(world: World, pipeline: Pipeline) -> None:
    result = world.run_batch(pipeline)
    assert result is not None and result.outcome == "applied", (pipeline.name, result)


def command(*arguments: str, code: int = 0) -> None:
    print("lakemark", *arguments)
    ended = main(list(arguments))
    assert ended == code, arguments


def killed(world: World, *arguments: str, **fault: str) -> None:
    print("lakemark", *arguments, fault)
    done = world.lakemark(*arguments, **fault)
    assert was_killed(done.returncode, done.stderr), done


# What becomes of it


def kafka_facts(pipelines: Iterable[Pipeline]) -> dict[str, Any]:
    """What the broker held at the end, by pipeline."""
    found = {}
    for pipeline in pipelines:
        extent = KafkaSource(pipeline.source).extent()
        held = [[*tp, extent.log_start_offset, extent.end_offset] for tp, extent in extent.partitions.items()]
        found[pipeline.name] = {
            "cluster_id": extent.cluster_id,
            "topic_ids": dict(extent.topic_ids),
            "partitions": sorted(held),
        }
    return found


def forget_places(lake: Path) -> None:
    """deltalake notes where a table was made, in the commit that made it; nobody reads that."""
    for path in lake.rglob("_delta_log/*.json"):
        text = path.read_text()
        if str(lake) in text:
            assert not path.with_name(f".{path.name}.crc").exists(), path  # it would not be that of the file any more
            times = path.stat()
            path.write_text(text.replace(str(lake), "/lake"))
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def verify_clean(folder: Path, private: Iterable[str]) -> None:
    """That no file says where it was made; Parquet files are read, for they are compressed."""
    words = [word.encode() for word in private]
    for path in filter(Path.is_file, folder.rglob("*")):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += repr(pq.read_table(path, partitioning=None).to_pylist()).encode()
        assert not any(word in content for word in words), path


def pack(folder: Path, archive: Path) -> None:
    """All files, in an order that compresses well: those of a kind beside each other; owners are left out."""

    def anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    paths = sorted(folder.rglob("*"), key=lambda p: (p.is_file(), p.suffix, p.relative_to(folder).parts))
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in paths:
            tar.add(path, str(path.relative_to(folder)), recursive=False, filter=anonymous)


def lines_of(data: Any, depth: int = 3) -> str:
    """JSON with one line for every pipeline or table that it is about."""
    if depth == 0 or not isinstance(data, dict) or not data:
        return json.dumps(data, sort_keys=True, separators=(",", ":"))
    inner = (f"{json.dumps(name)}: {lines_of(value, depth - 1)}" for name, value in sorted(data.items()))
    return "{\n" + ",\n".join(inner) + "\n}"


def verify_new(version: str) -> None:
    """Refuses a version whose files are there. They are the only evidence of it, and later code cannot make them again.

    Args:
        version: as in the files' names (`v0.1.0`).

    Raises:
        SystemExit: says what to do.
    """
    there = [path.name for path in (HERE / f"{version}.tar.xz", HERE / f"{version}.json") if path.exists()]
    if there:
        raise SystemExit(
            f"tests/upgrade has {' and '.join(there)} already, the only evidence of what {version} left on disk. "
            "Nothing was changed. For a new release, set its version in pyproject.toml and run `make setup-dev` first."
        )


def make(folder: Path) -> None:
    stack = stack_in(folder / "services")
    name = f"v{stack.settings.code_version}"
    verify_new(name)
    world = world_in(folder / "world", stack)
    for name in FOLDERS:
        shutil.copytree(PROJECT / name, folder / "world" / name, dirs_exist_ok=True)
    os.environ.update(world.settings.child_environment())
    try:
        stack.up(print, ("kafka", "spark"))
        build(world)
        facts = {"kafka": kafka_facts(pipelines_of(world.settings))}
        facts |= {name: said(world.settings) for name, said in SECTIONS.items()}
    finally:
        stack.down()
    log = stack.broker.data / "log"
    assert (log / ".kafka_cleanshutdown").exists(), "the broker did not end in time"
    shutil.copytree(log, folder / "world" / "kafka" / "log")
    (folder / "world" / f"{name}.json").write_text(lines_of(facts) + "\n")
    forget_places(folder / "world" / "lake")
    verify_clean(folder / "world", (str(folder), str(PROJECT_ROOT), str(Path.home())))
    shutil.move(folder / "world" / f"{name}.json", HERE / f"{name}.json")
    pack(folder / "world", HERE / f"{name}.tar.xz")


if __name__ == "__main__":
    with TemporaryDirectory(prefix="lakemark-upgrade-") as made_in:
        make(Path(made_in).resolve())
