"""Tables stay apart: none in the folder of another one (its VACUUM would remove the inner one's files), none with two
writers."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from include.cli.command import main
from include.lake.delta_tables import verify_alone
from include.lake.uri import LakeUri
from include.pipeline_file import find_pipeline, load_pipeline, load_pipelines
from include.pipeline_file.apart import Place, clash, clashes
from include.protocol.errors import PipelineFileError, TerminalError
from include.protocol.maintenance import TableShape
from include.settings import Settings
from spark_jobs.commands.maintenance import Maintenance
from spark_jobs.tables.creating import create_table

SOURCE = {"bootstrap_servers": "k:1", "topics": ["t"], "schema": "id BIGINT, seq BIGINT"}
ENVIRONMENT = {"LAYER": "silver"}


def written(folder: Path, name: str, table: str, **sections: Any) -> Path:
    data = {
        "name": name,
        "source": SOURCE,
        "change": {"keys": ["id"], "order_by": ["seq"]},
        "target": {"table": table, **sections.pop("target", {})},
        **sections,
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


INSIDE, AROUND, SAME, SPELT = "lake://silver/x/table", "lake://silver", "lake://silver/x", "lake://Silver/X/y"


@pytest.mark.parametrize("table", [INSIDE, AROUND, SAME, SPELT])
@pytest.mark.parametrize(
    ("field", "sections"),
    [
        ("archive", lambda table: {"archive": table}),
        ("target.history_table", lambda table: {"target": {"history_table": table}}),
        ("target.routes", lambda table: {"target": {"routes": [{"table": table, "when": "id > 1"}]}}),
    ],
)
def test_no_table_of_a_file_lies_in_another(tmp_path: Path, table: str, field: str, sections: Any) -> None:
    path = written(tmp_path, "p", "lake://silver/x", **sections(table))
    with pytest.raises(PipelineFileError, match=f"field {field}.*none in the folder of another; found '{table}'"):
        load_pipeline(path, {})


def test_two_tables_beside_the_target_are_apart_too(tmp_path: Path) -> None:
    routes = [{"table": "lake://a/r", "when": "id > 1"}, {"table": "lake://a/r/s", "when": "id > 2"}]
    with pytest.raises(PipelineFileError, match=r"target\.routes.*found 'lake://a/r/s'"):
        load_pipeline(written(tmp_path, "p", "lake://silver/x", target={"routes": routes}), {})
    routes = [{"table": "lake://a/r", "when": "id > 1"}, {"table": "lake://a/rs", "when": "id > 2"}]
    load_pipeline(written(tmp_path, "p", "lake://silver/x", target={"routes": routes}), {})


@pytest.mark.parametrize(
    ("table", "good"), [(INSIDE, False), (AROUND, False), (SAME, True), ("lake://silver/xy", True)]
)
def test_a_reference_lies_in_no_table_that_is_written(tmp_path: Path, table: str, good: bool) -> None:
    transform = {"file": "t.sql", "schema": "id BIGINT, seq BIGINT", "references": {"prices": table}}
    alone = written(tmp_path, "p", "lake://silver/x", transform=transform)
    if good:
        assert load_pipeline(alone, {}).name == "p"
    else:
        with pytest.raises(PipelineFileError, match=r"transform\.references\.prices"):
            load_pipeline(alone, {})
    written(tmp_path, "p", "lake://gold/p", transform=transform)
    written(tmp_path, "q", "lake://silver/x")
    assert len(load_pipelines(tmp_path, {})[1]) == (0 if good else 2)


@pytest.mark.parametrize(
    "table",
    [
        "lake://silver/x/",
        "lake://silver//x",
        "lake://silver/./x",
        "lake://silver/y/../x",
        "lake://_lakemark/x",
        "lake://_Lakemark/ledger/p",
        "lake://silver/_delta_log",
        "lake://silver/x/_delta_log/y",
    ],
)
def test_every_table_has_one_spelling_and_none_is_lakemarks_or_deltas(tmp_path: Path, table: str) -> None:
    with pytest.raises(PipelineFileError, match=r"target\.table.*a table inside the lake, outside"):
        load_pipeline(written(tmp_path, "p", table), {})


@pytest.mark.parametrize("table", [INSIDE, AROUND, SAME, SPELT])
def test_no_table_lies_in_one_of_another_file(tmp_path: Path, table: str) -> None:
    """Both files are wrong: whichever ran would harm the other's table. All others go on."""
    for name, tables in {
        "a": (SAME, {"archive": "lake://bronze/a"}),
        "b": ("lake://gold/b", {"archive": table}),
    }.items():
        written(tmp_path, name, tables[0], **tables[1])
    written(tmp_path, "c", "lake://gold/c")
    pipelines, errors = load_pipelines(tmp_path, ENVIRONMENT)
    assert [p.name for p in pipelines] == ["c"]
    of_a, of_b = map(str, errors)
    assert "a.yaml, field target.table" in of_a
    assert f"'{SAME}', while b.yaml has '{table}' as archive" in of_a
    assert "b.yaml, field archive" in of_b
    assert f"'{table}', while a.yaml has '{SAME}' as target.table" in of_b
    for name in ("a", "b"):
        with pytest.raises(PipelineFileError, match="that no other pipeline writes"):
            find_pipeline(name, tmp_path, ENVIRONMENT)  # as a job does
        assert load_pipelines(tmp_path, ENVIRONMENT, name)[0] == []  # as a task's process does
    assert find_pipeline("c", tmp_path, ENVIRONMENT).name == "c"


def test_a_landing_is_apart_as_its_pipeline_is(tmp_path: Path) -> None:
    written(tmp_path, "a", "lake://silver/a", archive="lake://bronze/a", merge_every=3)
    assert find_pipeline("a__landing", tmp_path, {}).name == "a__landing"
    written(tmp_path, "b", "lake://bronze/a/b")
    with pytest.raises(PipelineFileError, match=r"while b\.yaml has"):
        find_pipeline("a__landing", tmp_path, {})


def test_a_file_that_does_not_run_stops_no_other(tmp_path: Path) -> None:
    written(tmp_path, "a", SAME)
    written(tmp_path, "b", INSIDE, schedule="now and then")
    (tmp_path / "c.yaml").write_text("target: [")
    (tmp_path / "d.yaml").write_text("target: {table: 5, routes: 7}\ntransform: {references: x}\narchive: {}\n")
    assert find_pipeline("a", tmp_path, {}).name == "a"
    assert [p.name for p in load_pipelines(tmp_path, {})[0]] == ["a"]


def test_a_file_that_is_changed_is_read_again(tmp_path: Path) -> None:
    written(tmp_path, "a", SAME)
    other = written(tmp_path, "b", "lake://silver/b")
    assert find_pipeline("a", tmp_path, {}).name == "a"
    other.write_text(other.read_text().replace("lake://silver/b", INSIDE))
    with pytest.raises(PipelineFileError, match=r"while b\.yaml has"):
        find_pipeline("a", tmp_path, {})


TABLES = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4).map(
    lambda parts: "lake://" + "/".join(parts)
)
PLACES = st.lists(st.builds(Place, st.just("f"), TABLES, st.booleans()), max_size=3)


@given(st.dictionaries(st.sampled_from("pqrs"), PLACES))
def test_all_clashes_are_found_and_no_other(places: dict[str, list[Place]]) -> None:
    expected = {
        (one, other)
        for one, other in permutations(places, 2)
        if any(clash(a, b) for a in places[one] for b in places[other])
    }
    assert {(one, other) for one, others in clashes(places).items() for other in others} == expected


@given(TABLES, TABLES, st.booleans(), st.booleans())
def test_a_clash_is_one_folder_in_another(one: str, other: str, writes: bool, written: bool) -> None:
    a, b = Path(one.removeprefix("lake://")), Path(other.removeprefix("lake://"))
    nested = a in b.parents or b in a.parents
    expected = (writes and written) if a == b else nested and (writes or written)
    assert clash(Place("f", one, writes), Place("f", other, written)) == expected


def table_at(path: Path) -> Path:
    (path / "_delta_log").mkdir(parents=True)
    return path


def never(*_: object) -> None:
    raise AssertionError("Spark was asked to do it")


class Spark:
    """Does nothing."""

    sql = staticmethod(never)


@pytest.mark.parametrize("there", ["silver", "silver/x/deep/table"])
def test_no_table_is_created_in_or_around_one_that_the_lake_has(tmp_path: Path, there: str) -> None:
    table_at(tmp_path / there)
    with pytest.raises(TerminalError, match="in the folder of another one"):
        create_table(Spark(), LakeUri(str(tmp_path / "silver" / "x")), "(id INT) USING delta")  # type: ignore[arg-type]


def test_a_table_beside_others_is_created(tmp_path: Path) -> None:
    table_at(tmp_path / "silver" / "xy")
    table_at(tmp_path / "silver" / "x")  # its own
    verify_alone(LakeUri(str(tmp_path / "silver" / "x")))
    with pytest.raises(AssertionError, match="asked to do it"):
        create_table(Spark(), LakeUri(str(tmp_path / "silver" / "z")), "(id INT) USING delta")  # type: ignore[arg-type]


@pytest.mark.parametrize("there", ["silver", "silver/x/inner"])
def test_validate_looks_into_the_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], there: str
) -> None:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    written(pipelines, "p", "lake://silver/x")
    monkeypatch.setenv("LAKEMARK_HOME", str(tmp_path))
    monkeypatch.setenv("LAKEMARK_PIPELINES", str(pipelines))
    table_at(tmp_path / "lake" / "silver" / "x")
    assert main(["validate", "p"]) == 0
    table_at(tmp_path / "lake" / there)
    assert main(["validate", "p"]) == 1
    assert f"a table in {tmp_path / 'lake' / there}" in capsys.readouterr().out


def test_vacuum_leaves_a_table_alone_that_somebody_has_put_into_the_targets_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.from_environment({"LAKEMARK_HOME": str(tmp_path)})
    pipeline = load_pipeline(written(tmp_path, "p", "lake://silver/x"), {})
    table_at(tmp_path / "lake" / "silver" / "x")
    maintenance = Maintenance(Spark, settings, pipeline, "test", lambda fact: None)  # type: ignore[arg-type]
    old_files = TableShape(1, 1, 1, 1, removable_files=1, log_files=1, records=1, deleted=0)
    monkeypatch.setattr("spark_jobs.commands.maintenance.shape_of", lambda *_: old_files)
    monkeypatch.setattr(Maintenance, "_commit", never)
    with pytest.raises(AssertionError, match="asked to do it"):
        maintenance._vacuum("target")
    table_at(tmp_path / "lake" / "silver" / "x" / "inner")
    with pytest.raises(TerminalError, match="inner"):
        maintenance._vacuum("target")
