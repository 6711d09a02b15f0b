"""Section `sinks`: what it takes, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from include.pipeline_file import load_pipeline
from include.protocol.errors import PipelineFileError
from tests.pure.pipeline_file.test_pipeline_file import changed, written

DATABASE = {"host": "db", "database": "d", "username": "u", "table": "shop.orders"}
ENVIRONMENT = {"KAFKA_BROKERS": "k", "LAKEMARK_VAR_PORT": "5433", "LAKEMARK_VAR_PASSWORD": "s3cret"}


def refused(folder: Path, sinks: dict[str, Any]) -> str:
    """What is said about a file with these sinks."""
    data = changed("schedule", None)
    data["sinks"] = sinks
    with pytest.raises(PipelineFileError) as failure:
        load_pipeline(written(folder, data), ENVIRONMENT)
    return str(failure.value)


def test_variables_stand_in_addresses_and_logins(tmp_path: Path) -> None:
    data = changed("schedule", None)
    login = {"port": "${LAKEMARK_VAR_PORT}", "password": "${LAKEMARK_VAR_PASSWORD}"}
    data["sinks"] = {"app": {"postgresql": {**DATABASE, **login}}}
    pipeline = load_pipeline(written(tmp_path, data), ENVIRONMENT)
    place = pipeline.sinks["app"].database
    assert (place.port, place.password and place.password.get_secret_value()) == (5433, "s3cret")
    assert "s3cret" not in repr(pipeline) + str(pipeline.for_people.model_dump())


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ({}, "exactly one of kafka, postgresql, mysql, files, python"),
        ({"postgresql": DATABASE, "kafka": {"topic": "t"}}, "found 'kafka and postgresql'"),
        ({"postgresql": {**DATABASE, "table": "a; DROP"}}, "TABLE or SCHEMA.TABLE"),
        ({"postgresql": {**DATABASE, "password": "plain"}}, "a variable of the environment"),
        ({"postgresql": {"table": "t"}}, "either `host` (with database and username) or `connection`"),
        ({"postgresql": {"table": "t", "host": "h"}}, "`database` and `username`, beside `host`"),
        ({"postgresql": {**DATABASE, "host": "u:p@db"}}, "a host's name or address"),
        ({"postgresql": DATABASE, "columns": {"a": "nope"}}, "sinks.app.columns.a: expected a column of the target"),
        ({"postgresql": DATABASE, "columns": {"a": "at"}}, "the key column id, once"),
        ({"postgresql": DATABASE, "types": {"at": "int); DROP"}}, "a type of the system"),
        ({"postgresql": DATABASE, "types": {"other": "int"}}, "a column at the sink"),
        (
            {"postgresql": DATABASE, "types": {"at": "date"}},
            "a type that keeps every value of TIMESTAMP, like timestamp",
        ),
        ({"mysql": DATABASE, "types": {"at": "datetime(3)"}}, "like datetime(6) or text"),
        ({"files": {"path": "/out"}, "columns": {"id": "id", "lakemark_op": "at"}}, "other names than Lakemark's own"),
        (
            {"postgresql": DATABASE, "what": "changes", "columns": {"id": "id", "Change_Offset": "at"}},
            "_lakemark, change_offset, change_partition, change_topic, lakemark_deleted, lakemark_op",
        ),
        ({"postgresql": DATABASE, "deletes": "tombstone"}, "delete | flag, for postgresql"),
        ({"kafka": {"topic": "t"}, "deletes": "delete"}, "tombstone | flag, for kafka"),
        ({"kafka": {"topic": "a b"}}, "the name of a topic"),
        ({"kafka": {"topic": ".."}}, "the name of a topic"),
        ({"kafka": {"topic": "orders"}}, "a topic that the pipeline does not read"),
        ({"postgresql": DATABASE, "columns": {"id": "id", "ü" * 40: "at"}}, "at most 63 bytes in UTF-8"),
        ({"files": {"path": "relative"}}, "an absolute path, or s3://BUCKET/PREFIX"),
        ({"files": {"path": "/out"}, "guarantee": "at_most_once"}, "exactly_once: one file publishes a delivery"),
        ({"python": {"file": "../x.py", "class": "A"}}, "NAME.py"),
        ({"postgresql": DATABASE, "mode": "upsrt"}, "field sinks.app.mode): expected 'follow'"),
        ({"kafka": {"topic": "t"}, "mode": "two_phase"}, "follow: Kafka's own two-phase commit (KIP-939)"),
        ({"files": {"path": "/out"}, "mode": "two_phase"}, "follow: files are written aside"),
        (
            {"postgresql": DATABASE, "mode": "two_phase", "guarantee": "at_least_once"},
            "exactly_once, with `mode: two_phase`",
        ),
        ({"kafka": {"topic": "t"}, "mode": "upsert"}, "follow: kafka needs no upsert"),
        ({"postgresql": DATABASE, "mode": "upsert", "what": "changes"}, "rows, with `mode: upsert`"),
        (
            {"postgresql": DATABASE, "what": "changes", "deletes": "flag"},
            "nothing, with `what: changes`: lakemark_deleted says it",
        ),
        ({"postgresql": DATABASE, "what": "changes", "begin": "snapshot"}, "start or now, with `what: changes`"),
        ({"mysql": {**DATABASE, "binary_log": "accepted"}}, "nothing, with `mode: follow`"),
        ({"postgresql": DATABASE, "what": "route"}, "a route's table with `what: route`, and none without"),
        ({"postgresql": DATABASE, "route": "lake://a/b"}, "a route's table with `what: route`, and none without"),
        ({"postgresql": DATABASE, "what": "route", "route": "lake://a/b"}, "one of target.routes: there is none"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(tmp_path: Path, sink: dict[str, Any], told: str) -> None:
    said = refused(tmp_path, {"app": sink})
    assert told.replace("sinks.app.columns.a: ", "") in said, said


def test_sinks_have_names_and_tables_of_their_own(tmp_path: Path) -> None:
    assert "a name of lower-case letters" in refused(tmp_path, {"App": {"postgresql": DATABASE}})
    both = {name: {"postgresql": DATABASE} for name in ("one", "two")}
    assert "a table that no other sink writes" in refused(tmp_path, both)


def test_no_sink_writes_where_another_one_keeps_its_progress(tmp_path: Path) -> None:
    said = refused(tmp_path, {"a": {"kafka": {"topic": "x"}}, "b": {"kafka": {"topic": "x.lakemark-progress"}}})
    assert "sinks.b.kafka.topic" in said and "another topic: a keeps its progress there" in said


def test_a_folder_has_one_sink_however_it_is_written(tmp_path: Path) -> None:
    said = refused(tmp_path, {"a": {"files": {"path": "/out"}}, "b": {"files": {"path": "/out/"}}})
    assert "a table that no other sink writes" in said
