"""`make bench-sinks`: what a delivery costs, beside the fastest plain way with the same effect, in one run.

No Spark: the table is made by hand. Servers are real: PostgreSQL, MariaDB, and a broker of Kafka. The plain way writes
the same rows that are ready in a file (COPY or LOAD DATA into a stage, then one upsert), or in memory (a producer).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pymysql
import pytest
from confluent_kafka import Producer
from deltalake import write_deltalake

from include.control.deliveries import Deliverer
from include.delivery.contract import Delivery, TwoPhaseSink
from include.delivery.creating import create, needed
from include.delivery.opening import taken
from include.protocol.deliveries import Follow, after
from include.protocol.two_phase import Prepared
from tests.conftest import stack_in
from tests.support.sink_servers import MariaServer, PostgresServer, maria_server, postgres_server
from tests.support.stream import SCHEMA, Stream

Message = tuple[str, str, list[tuple[str, str]]]  # key, value, headers
_SIZES = (1_000, 1_000_000)


def rows_of(number: int, seq: int) -> pa.Table:
    """Rows with these keys, in a random order."""
    ids = np.random.default_rng(seq).permutation(number)
    names = pa.array([f"name {n % 1000} of some length" for n in range(number)])
    lineage = pa.StructArray.from_arrays([pa.nulls(number, pa.bool_()), pa.array(ids)], ["deleted", "offset"])
    return pa.table([pa.array(ids), pa.array(np.full(number, seq)), names, lineage], SCHEMA)


class Bench:
    """A stream whose table gets whole versions, and a sink that follows."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, sink: dict) -> None:
        folder.mkdir(parents=True)
        self.stream = Stream.of(folder, patch, app={"begin": "start", **sink})
        pipeline = self.stream.coordinator.pipeline
        create(pipeline, "app", needed(pipeline, "app"))
        self.deliverer = Deliverer(self.stream.coordinator.settings, pipeline, "app", say=lambda _: None)

    def deliver(self, rows: pa.Table) -> float:
        """The time of the delivery of a commit that has replaced or added these rows, in seconds."""
        write_deltalake(self.stream.target, rows, mode="append", configuration=None)
        is_prepared = self.deliverer.pipeline.sinks["app"].mode == "two_phase"
        return seconds(self._prepare_and_commit if is_prepared else self.deliverer.deliver)

    def _prepare_and_commit(self) -> None:
        """What an attempt does at its point beside the lake's own commit."""
        settings, pipeline, feed = self.deliverer.settings, self.deliverer.pipeline, self.deliverer.feed
        with taken(settings, pipeline, "app") as sink:
            assert isinstance(sink, TwoPhaseSink)
            target, stands = feed.target(), sink.progress()
            assert target is not None
            waiting = feed.due(target, stands)
            assert isinstance(waiting, Follow)
            for commit in waiting.commits:
                prepared, now = Prepared(commit.version, "bench"), feed.shaped(after(stands, target.table_id, commit))
                with feed.rows_of(target, commit, stands) as rows:
                    sink.prepare(Delivery(stands, now, rows), prepared)
                sink.end(prepared, commits=True)
                stands = now


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def as_csv(rows: pa.Table, file: Path) -> Path:
    csv.write_csv(rows.drop_columns(["_lakemark"]), file, csv.WriteOptions(include_header=False))
    return file


def plain_postgresql(server: PostgresServer, file: Path) -> None:
    with server.connect() as connection, connection.transaction(), connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE stage ON COMMIT DROP AS SELECT * FROM plain WITH NO DATA")
        with cursor.copy("COPY stage FROM STDIN (FORMAT csv)") as copy, file.open("rb") as content:
            while part := content.read(1 << 20):
                copy.write(part)
        cursor.execute(
            "INSERT INTO plain SELECT * FROM stage ON CONFLICT (id) "
            "DO UPDATE SET seq = excluded.seq, name = excluded.name"
        )


def plain_mysql(server: MariaServer, file: Path) -> None:
    login = {"host": "127.0.0.1", "port": server.port, "user": "lakemark", "database": "lakemark"}
    connection = pymysql.connect(**login, local_infile=True)
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE stage (PRIMARY KEY (id)) SELECT * FROM plain LIMIT 0")
        cursor.execute(
            "LOAD DATA LOCAL INFILE %s INTO TABLE stage FIELDS TERMINATED BY ',' ENCLOSED BY '\"'", (str(file),)
        )
        cursor.execute(
            "INSERT INTO plain SELECT * FROM stage ON DUPLICATE KEY UPDATE seq = VALUES(seq), name = VALUES(name)"
        )
        connection.commit()


def plain_kafka(servers: str, topic: str, messages: list[Message]) -> None:
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 20, "enable.idempotence": True})
    for key, value, headers in messages:
        while True:
            try:
                producer.produce(topic, value=value, key=key, headers=headers)
                break
            except BufferError:
                producer.poll(0.5)
    producer.flush(120)


def messages_of(rows: pa.Table) -> list[Message]:
    """The same records as a delivery sends."""
    named = enumerate(rows.drop_columns(["_lakemark"]).to_pylist())
    return [(json.dumps({"id": row["id"]}), json.dumps(row), [("lakemark", f"p/1/1/{n}")]) for n, row in named]


@contextmanager
def _broker(folder: Path) -> Iterator[str]:
    stack = stack_in(folder)
    try:
        stack.up(lambda _: None, ("kafka",))
        yield stack.broker.bootstrap_servers
    finally:
        stack.down()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[*_SIZES])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        with (
            postgres_server(max_prepared_transactions="4") as postgres,
            maria_server(folder / "my" / "server") as maria,
            _broker(folder / "broker") as servers,
        ):
            for rows in options.rows:
                for mode, server in product(("follow", "two_phase"), (postgres, maria)):
                    place = folder / f"{server.system}-{mode}-{rows}"
                    database(place, patch, server, mode, rows=rows, rounds=options.rounds)
                kafka(folder / f"kafka-{rows}", patch, servers, rows, options.rounds)


def database(
    folder: Path, patch: pytest.MonkeyPatch, server: PostgresServer | MariaServer, mode: str, rows: int, rounds: int
) -> None:
    server.clear()
    bench = Bench(folder, patch, server.section("delivered", mode=mode))
    like = "(LIKE delivered INCLUDING ALL)" if server.system == "postgresql" else "LIKE delivered"
    server.rows(f"CREATE TABLE plain {like}")
    plain = plain_postgresql if isinstance(server, PostgresServer) else plain_mysql
    told = []
    for number in range(rounds + 1):
        changed = rows_of(rows, number)
        file = as_csv(changed, folder / "rows.csv")
        told.append((bench.deliver(changed), seconds(lambda file=file: plain(server, file))))  # type: ignore[arg-type]
    show(f"{server.system}, {mode}, {rows:,} rows into an empty table", told[:1])
    show(f"{server.system}, {mode}, {rows:,} rows of as many", told[1:])


def kafka(folder: Path, patch: pytest.MonkeyPatch, servers: str, rows: int, rounds: int) -> None:
    topic = f"out-{uuid.uuid4().hex[:8]}"
    place = {"bootstrap_servers": servers, "topic": topic, "transaction_seconds": 300}
    bench = Bench(folder, patch, {"kafka": place})
    told = []
    for number in range(rounds):
        changed = rows_of(rows, number)
        messages = messages_of(changed)
        told.append((bench.deliver(changed), seconds(lambda m=messages: plain_kafka(servers, topic, m))))  # type: ignore[misc]
    show(f"kafka, {rows:,} rows", told)


def show(what: str, told: list[tuple[float, float]]) -> None:
    mine, plain = (sorted(one)[len(told) // 2] for one in zip(*told, strict=True))
    print(f"{what:<56} {mine:7.2f} s   plain {plain:7.2f} s   {mine / plain:5.2f} x", flush=True)


if __name__ == "__main__":
    main()
