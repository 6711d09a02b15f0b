"""What one table of a pipeline is, as those who write it get it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from include.pipeline_file import OrderField, Pipeline
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.table_spec import TableSpec


def pipeline(**sections: Any) -> Pipeline:
    declared: dict[str, Any] = {
        "name": "p",
        "source": {"bootstrap_servers": "k", "topics": ["t"], "schema": "id BIGINT, seq INT, name STRING"},
        "change": {"keys": ["id"], "order_by": ["seq"]},
        "target": {"table": "lake://silver/p"},
    }
    for section, changes in sections.items():
        declared[section] = {**declared.get(section, {}), **changes}
    return Pipeline.model_validate(declared)


def differing(one: TableSpec, other: TableSpec) -> set[str]:
    return {name for name, value in asdict(one).items() if value != asdict(other)[name]}


def test_the_target_is_what_the_file_declares() -> None:
    change = {"absent": "keep", "on_schema_change": "fail", "order_by": ["kafka.timestamp", "seq"]}
    assert TableSpec.of_target(pipeline(change=change, target={"cluster_by": ["name"]})) == TableSpec(
        pipeline="p",
        name="lake://silver/p",
        kind="scd1",
        keys=("id",),
        columns=(Column("id", "BIGINT"), Column("seq", "INT"), Column("name", "STRING")),
        order=(OrderField("kafka.timestamp", "TIMESTAMP", "kafka"), OrderField("seq", "INT", "column")),
        partial_columns=("name",),
        cluster_by=("name",),
        truncates=False,
        unites_rows=False,
        valid_from=None,
        track_columns=(),
        on_schema_change="fail",
        is_target=True,
    )


def test_a_target_of_history_knows_when_a_state_begins_and_what_makes_one() -> None:
    change = {"history": "scd2", "valid_from": "kafka.timestamp", "order_by": ["kafka.timestamp", "seq"]}
    found = TableSpec.of_target(pipeline(change={**change, "track_columns": ["name"]}))
    assert found.kind == "scd2"
    assert found.valid_from == OrderField("kafka.timestamp", "TIMESTAMP", "kafka")
    assert found.track_columns == ("name",)


def test_the_history_beside_a_target_is_of_another_kind_and_else_the_same() -> None:
    target = {"history_table": "lake://silver/h", "cluster_by": ["id"]}
    both = pipeline(target=target, change={"track_columns": ["name"]})
    history = TableSpec.of_history(both)
    assert differing(history, TableSpec.of_target(both)) == {"name", "kind", "valid_from", "track_columns", "is_target"}
    assert (history.name, history.kind) == ("lake://silver/h", "scd2")
    assert history.valid_from == OrderField("seq", "INT", "column")
    assert history.track_columns == ("name",)


@pytest.mark.parametrize("history", ["scd1", "scd2"])
def test_the_table_of_a_route_is_as_the_target(history: str) -> None:
    routes = [{"table": "lake://silver/r", "when": "seq > 3"}]
    routed = pipeline(change={"history": history}, target={"routes": routes})
    route = TableSpec.of_route(routed, "lake://silver/r")
    assert differing(route, TableSpec.of_target(routed)) == {"name", "is_target"}
    assert (route.name, route.kind) == ("lake://silver/r", history)


def test_only_truncates_that_are_applied_leave_a_row_without_keys() -> None:
    source = {"format": "debezium-json"}
    for truncates, applied in (("fail", False), ("ignore", False), ("apply", True)):
        change = {"truncates": truncates, "order_by": ["source.lsn"]}
        assert TableSpec.of_target(pipeline(source=source, change=change)).truncates == applied


def test_a_transform_may_make_several_rows_for_a_key_and_says_what_columns_there_are() -> None:
    found = TableSpec.of_target(pipeline(transform={"file": "t.sql", "schema": "id BIGINT, seq INT, part STRING"}))
    assert found.unites_rows
    assert [column.name for column in found.columns] == ["id", "seq", "part"]


def test_only_a_target_is_made_anew_by_a_new_table() -> None:
    both = pipeline(target={"history_table": "lake://silver/h"})
    assert "`lakemark backfill p --into-new-table`" in TableSpec.of_target(both).anew
    assert (
        "move the folder of this table away, and `lakemark reset p --from earliest" in TableSpec.of_history(both).anew
    )
