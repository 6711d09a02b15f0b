"""A pipeline file: what is good, and what is refused, by file, field, allowed and found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from include.participants.explain import explanation, markdown
from include.pipeline_file import find_pipeline, load_pipeline
from include.pipeline_file.loading import pipeline_files
from include.pipeline_file.schema_ddl import Column
from include.protocol.errors import PipelineFileError
from include.settings import PROJECT_ROOT

GOOD: dict[str, Any] = {
    "name": "orders",
    "schedule": "*/5 * * * *",
    "source": {"bootstrap_servers": "${KAFKA_BROKERS}", "topics": ["orders"], "schema": "id BIGINT, at TIMESTAMP"},
    "change": {"keys": ["id"], "order_by": ["at"]},
    "target": {"table": "lake://silver/orders", "cluster_by": ["id"]},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    data = yaml.safe_load(yaml.safe_dump(GOOD))
    *sections, field = path.split(".")
    at = data
    for section in sections:
        at = at[section]
    at[field] = value
    return data


def written(folder: Path, data: Any, name: str = "orders") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return path


def test_a_good_file(tmp_path: Path) -> None:
    pipeline = load_pipeline(written(tmp_path, GOOD), {"KAFKA_BROKERS": "k1:9092,k2:9092"})
    assert pipeline.source.bootstrap_servers == "k1:9092,k2:9092"
    assert pipeline.source.limits.records_per_batch_max == 500_000
    assert pipeline.source.columns == (Column("id", "BIGINT"), Column("at", "TIMESTAMP"))


def test_a_name_cannot_be_that_of_another_pipelines_backfill(tmp_path: Path) -> None:
    """`lakemark__orders__backfill` is a DAG of `orders`."""
    with pytest.raises(PipelineFileError, match="two underscores"):
        load_pipeline(
            written(tmp_path, {**GOOD, "name": "orders__backfill"}, "orders__backfill"), {"KAFKA_BROKERS": "k:1"}
        )


def test_a_landing_is_known_by_its_name(tmp_path: Path) -> None:
    path, brokers = (
        written(tmp_path, {**GOOD, "archive": "lake://bronze/orders", "merge_every": 5}),
        {"KAFKA_BROKERS": "k:1"},
    )
    pipeline, landing = load_pipeline(path, brokers), find_pipeline("orders__landing", tmp_path, brokers)
    assert pipeline.halves == (landing, pipeline)
    assert (landing.target.table, landing.archive, landing.halves) == ("lake://bronze/orders", None, (landing,))
    assert "the archive lake://bronze/orders" in explanation(pipeline)["steps"]["land"]
    written(tmp_path, GOOD)
    with pytest.raises(PipelineFileError, match="only such a pipeline has a landing"):
        find_pipeline("orders__landing", tmp_path, brokers)


def test_the_projects_own_files_are_good() -> None:
    assert find_pipeline("flights", PROJECT_ROOT / "include" / "pipelines", {}).name == "flights"


@pytest.mark.parametrize(
    ("path", "value", "field", "allowed", "found"),
    [
        ("schedule", "every day", "schedule", "a cron expression", "every day"),
        ("schedule", "0 0 31 2 *", "schedule", "a cron expression", "0 0 31 2 *"),  # it names no time
        ("stale_after_minutes", float("inf"), "stale_after_minutes", "a number", "inf"),
        ("stale_after_minutes", 1e300, "stale_after_minutes", "at most 1e+06", "1e+300"),
        ("target.table", f"lake://{'a' * 300}", "target.table", "parts of at most 200 characters", "lake://"),
        ("source.filter", f"id IN ({'1, ' * 5_000}1)", "source.filter", "at most 10,000 characters", "id IN"),
        ("source.format", "xml", "source.format", "json", "xml"),
        ("source.format", "avro", "source.registry", "schemas of the records", "nothing"),
        ("source.format", "string", "source.schema", "one column of type STRING", "id BIGINT"),
        ("source.topics_pattern", "x", "source.topics", "or topics_pattern", "both"),
        ("source.topics", [], "source.topics", "at least one topic; or topics_pattern", "neither"),
        ("source.schema", "id BIGINT, m MAP<INT, INT>", "source.schema", "maps whose keys are STRING", "MAP<INT, INT>"),
        ("source.topics", ["a", "a"], "source.topics", "every topic once", "a"),
        (
            "source.schema",
            "id BIGINT, at TIMESTAMP, `a b` INT",
            "source.schema",
            "names without spaces",
            "'a b'",
        ),
        ("source.schema", "id BIGINT, at TIMESTAMP, `a\n` INT", "source.schema", "names without spaces", "a"),
        *(
            ("source.schema", f"id BIGINT, at TIMESTAMP, s {type_}", "source.schema", "names without spaces", c)
            for c, type_ in (
                ("'a;'", "STRUCT<`a;`: INT>"),
                ("'='", "ARRAY<STRUCT<b: MAP<STRING, STRUCT<`=`: INT>>>>"),
                ("'a,b'", "STRUCT<a: STRUCT<`a,b`: INT>>"),
            )
        ),
        ("source.schema", f"id {'ARRAY<' * 5000}INT{'>' * 5000}", "source.schema", "at most 50 levels", "ARRAY<"),
        ("source.schema", "id BIGNT", "source.schema", "BIGINT", "BIGNT"),
        ("source.schema", "id BIGINT, _lakemark INT", "source.schema", "other names", "_lakemark"),
        ("source.limits", {"records_per_batch_max": 0}, "source.limits.records_per_batch_max", "1 or more", "0"),
        ("source.limits", {"records": 5}, "source.limits.records", "records_per_batch_max", "an unknown field"),
        ("change.keys", ["ident"], "change.keys", "id, at", "ident"),
        ("source.schema", "id STRUCT<a: INT>, at INT", "change.keys", "simple types", "STRUCT<a:INT>"),
        ("source.schema", "id INT, at MAP<STRING, INT>", "change.order_by", "simple types", "MAP<STRING, INT>"),
        ("change.order_by", ["when"], "change.order_by", "id, at, kafka.timestamp", "when"),
        ("change.order_by", ["source.lsn"], "change.order_by", "id, at, kafka.timestamp", "source.lsn"),
        ("change.order_by", ["at", "at"], "change.order_by", "every column once", "at, at"),
        ("change.tombstones", "delete", "change.tombstones", "source.key", "no source.key"),
        ("source.metadata", {"at": "timestamp"}, "source.metadata", "source.schema does not have", "at"),
        ("source.metadata", {"sent": "time"}, "source.metadata.sent", "topic, partition, offset", "time"),
        ("change.history", "scd3", "change.history", "'scd1' or 'scd2'", "scd3"),
        ("change.track_columns", ["at"], "change.track_columns", "history: scd2, or target.history_table", "neither"),
        ("change.previous_keys", {"at": "id"}, "change.previous_keys", "a key: id", "at"),
        ("change.previous_keys", {"id": "at"}, "change.previous_keys", "a column of id's type, BIGINT", "TIMESTAMP"),
        ("target.history_table", "lake://silver/orders", "target.history_table", "another table", "lake://"),
        (
            "change",
            {"keys": ["id"], "absent": "keep", "on_schema_change": "rescue"},
            "change.on_schema_change",
            "take away",
            "rescue",
        ),
        ("change.on_schema_change", "guess", "change.on_schema_change", "'rescue'", "guess"),
        ("target.routes", [{"table": "lake://a/b"}], "target.routes", "`when` or `topics`", "neither"),
        (
            "target.routes",
            [{"table": "lake://silver/orders", "when": "true"}],
            "target.routes",
            "another table",
            "lake://",
        ),
        ("transform", {"file": "x.txt", "schema": "id INT"}, "transform.file", "NAME.sql or NAME.py", "x.txt"),
        ("transform", {"file": "x.sql", "schema": "no INT"}, "change.keys", "a column of transform.schema: no", "id"),
        ("change.truncates", "apply", "change.truncates", "debezium-json or debezium-avro", "json"),
        ("merge_every", 5, "merge_every", "an `archive`", "no archive"),
        ("archive", "lake://silver/orders", "archive", "another table", "lake://silver/orders"),
        ("target.table", "s3://bucket/x", "target.table", "lake://", "s3://bucket/x"),
        ("target.table", "lake://a/../../b", "target.table", "inside the lake", "b"),
        ("target.table", "lake://_lakemark", "target.table", "inside the lake", "_lakemark"),
        ("target.table", "lake://a//b", "target.table", "inside the lake", "a//b"),
        ("target.table", "lake://a`; DROP TABLE x", "target.table", "lake://", "DROP"),
        ("name", "a/../b", "name", "orders, since", "a/../b"),
        ("source.security", {"protocol": "SASL_SSL"}, "source.security.mechanism", "for SASL", "nothing"),
        ("source.security", {"protocol": "x"}, "source.security.protocol", "SASL_SSL", "'x'"),
        ("target.cluster_by", ["x"], "target.cluster_by", "id, at", "x"),
        ("name", "other", "name", "orders", "other"),
        ("targt", {}, "targt", "did you mean target", "an unknown field"),
        ("target.routes", [{"tabel": "lake://a/b"}], "target.routes.0.t", "did you mean table", "an unknown field"),
        ("source.bootstrap_servers", "${KAFKA_NOT_SET}", "source.bootstrap_servers", "KAFKA_NOT_SET", "not set"),
    ],
)
def test_a_broken_file_names_file_field_allowed_and_found(
    tmp_path: Path, path: str, value: Any, field: str, allowed: str, found: str
) -> None:
    file = written(tmp_path, changed(path, value))
    with pytest.raises(PipelineFileError, match=str(file)) as failure:
        load_pipeline(file, {"KAFKA_BROKERS": "k:9092"})
    problems = failure.value.problems
    assert [p for p in problems if p.field.startswith(field) and allowed in p.allowed and found in p.found], problems


@pytest.mark.parametrize(
    ("text", "found"), [("a: [", "flow node"), ("- 1", "a list"), ("", "nothing"), ("name: orders", "nothing")]
)
def test_what_is_no_pipeline_at_all(tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(PipelineFileError, match=found):
        load_pipeline(written(tmp_path, text), {})


def test_a_pipeline_of_two_halves_is_not_rehearsed(tmp_path: Path) -> None:
    """The file says so at once, and not the rehearsal at night."""
    halves = {"archive": "lake://bronze/orders", "merge_every": 3}
    file = written(tmp_path, {**GOOD, **halves, "checkpoints": {"rehearse": "0 6 * * *"}})
    with pytest.raises(PipelineFileError, match=r"field checkpoints\.rehearse\): expected null, with `merge_every`"):
        load_pipeline(file, {"KAFKA_BROKERS": "k:9092"})


def test_variables_have_defaults(tmp_path: Path) -> None:
    file = written(tmp_path, changed("source.bootstrap_servers", "${KAFKA_NOT_SET:-localhost:9092}"))
    assert load_pipeline(file, {}).source.bootstrap_servers == "localhost:9092"


@pytest.mark.parametrize("password", ["s3cret", 12345, "${KAFKA_P:-s3cret}", ["s3cret"], {"a": "s3cret"}])
def test_a_password_in_the_file_is_refused_and_not_shown(tmp_path: Path, password: Any) -> None:
    security = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u", "password": password}
    file = written(tmp_path, changed("source.security", security))
    with pytest.raises(
        PipelineFileError, match=r"source\.security\.password, expected \$\{NAME\}|security.password"
    ) as failure:
        load_pipeline(file, {"KAFKA_BROKERS": "k:9092"})
    assert "s3cret" not in str(failure.value.facts())
    assert "12345" not in str(failure.value.facts())


def test_a_password_from_the_environment_is_not_shown(tmp_path: Path) -> None:
    security = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u", "password": "${KAFKA_P}"}
    pipeline = load_pipeline(
        written(tmp_path, changed("source.security", security)), {"KAFKA_BROKERS": "k", "KAFKA_P": "s3cret"}
    )
    assert pipeline.source.security.password.get_secret_value() == "s3cret"
    for text in (repr(pipeline), pipeline.model_dump_json(), str(explanation(pipeline)), markdown(pipeline)):
        assert "s3cret" not in text
    with pytest.raises(PipelineFileError, match="KAFKA_P set"):
        load_pipeline(tmp_path / "orders.yaml", {"KAFKA_BROKERS": "k"})


def test_yaml_makes_no_objects(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match="plain values, lists and sections"):
        load_pipeline(written(tmp_path, "name: !!python/object/apply:os.system ['touch x']"), {})


@pytest.mark.parametrize("name", ["../orders", "a/b", "Orders", ".", ""])
def test_a_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    (tmp_path / "pipelines").mkdir()
    written(tmp_path, GOOD)
    with pytest.raises(PipelineFileError, match="one of the pipelines"):
        find_pipeline(name, tmp_path / "pipelines", {})


def test_a_pipeline_that_is_not_there_names_the_ones_that_are(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    with pytest.raises(PipelineFileError, match=r"no such pipeline .* orders; .* use one of these names"):
        find_pipeline("order", tmp_path, {})


def test_positions_and_tombstones_go_with_what_the_records_hold(tmp_path: Path) -> None:
    debezium = changed("source.format", "debezium-json")
    debezium["change"]["order_by"] = ["source.file", "source.pos", "ts_ms"]
    pipeline = load_pipeline(written(tmp_path, debezium), {"KAFKA_BROKERS": "k:1"})
    assert [(field.type, field.of) for field in pipeline.order] == [
        ("STRING", "position"),
        ("BIGINT", "position"),
        ("BIGINT", "position"),
    ]
    assert (pipeline.tombstones, pipeline.has_deletes) == ("ignore", True)
    keyed = changed("source.key", "json")
    keyed["change"] |= {"tombstones": "delete"}
    with pytest.raises(PipelineFileError, match="a tombstone has no columns to order by"):
        load_pipeline(written(tmp_path, keyed), {"KAFKA_BROKERS": "k:1"})
    keyed["change"] |= {"order_by": []}
    pipeline = load_pipeline(written(tmp_path, keyed), {"KAFKA_BROKERS": "k:1"})
    assert "a tombstone deletes" in markdown(pipeline)
    assert "offsets alone order" in pipeline.warnings[0]


def test_names_that_would_be_taken_twice_are_refused(tmp_path: Path) -> None:
    file = changed("source.schema", "id BIGINT, at TIMESTAMP, _Offset BIGINT")
    file["change"] |= {"order_by": ["_Offset"]}
    with pytest.raises(PipelineFileError, match="another name than _topic, _partition, _offset"):
        load_pipeline(written(tmp_path, file), {"KAFKA_BROKERS": "k:1"})


def test_kafkas_key_is_for_key_columns_of_the_schema(tmp_path: Path) -> None:
    file = changed("source.key", "string")
    file["source"] |= {"metadata": {"place": "offset"}}
    file["change"] |= {"keys": ["place"]}
    with pytest.raises(PipelineFileError, match=r"a key column in source\.schema"):
        load_pipeline(written(tmp_path, file), {"KAFKA_BROKERS": "k:1"})


def test_encoded_values_within_others_are_for_a_format_that_says_what_they_are(tmp_path: Path) -> None:
    file = changed("source.format", "debezium-json")
    file["source"] |= {"schema": "id BIGINT, at TIMESTAMP, sums ARRAY<STRUCT<v: DECIMAL(5, 2)>>"}
    with pytest.raises(PipelineFileError, match="STRING for dates, times and decimals within other types"):
        load_pipeline(written(tmp_path, file), {"KAFKA_BROKERS": "k:1"})


def test_a_key_that_is_an_approximation_is_warned_of(tmp_path: Path) -> None:
    keyed = changed("source.schema", "id DOUBLE, at TIMESTAMP")
    [said] = load_pipeline(written(tmp_path, keyed), {"KAFKA_BROKERS": "k:1"}).warnings
    assert said.startswith("change.keys has id, which is DOUBLE")


def test_the_examples_are_good_and_off() -> None:
    folder = PROJECT_ROOT / "include" / "pipelines" / "examples"
    names = [path.stem for path in folder.glob("*.yaml")]
    assert names
    for name in names:
        assert find_pipeline(name, folder, {}).name == name
    assert not any(folder in path.parents for path in pipeline_files(folder.parent))


def test_it_says_which_kind_of_cut_a_pipeline_has(tmp_path: Path) -> None:
    one, two = GOOD, {**GOOD, "archive": "lake://bronze/orders", "merge_every": 3}
    plain, halves = (load_pipeline(written(tmp_path, data), {"KAFKA_BROKERS": "k:1"}) for data in (one, two))
    kinds = [explanation(pipeline)["cut"].partition(":")[0] for pipeline in (plain, halves)]
    assert kinds == ["aligned", "pipelined"]
    assert "Its cuts are pipelined: " in markdown(halves)
