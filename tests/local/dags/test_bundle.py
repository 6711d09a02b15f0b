"""The DAG bundle: a DAG file for each pipeline file, with a new time when the pipeline may have changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.utils.file import list_py_file_paths

from include.installation.airflow_home import BUNDLES
from include.settings import PROJECT_ROOT
from tests.local.dags.test_dags import KINDS, OF_ALL, pipeline_file

FIXED = {"lakemark_watch.py", "lakemark_pipeline_errors.py"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    monkeypatch.setenv("LAKEMARK_PIPELINES", str(pipelines))
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH", str(tmp_path / "bundles"))
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps(BUNDLES))
    monkeypatch.setenv("AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL", "0")  # as `lakemark up` sets it
    return pipelines


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str, str], bool]:
    """Stands in for Airflow's table of DAGs, of which there is no database here: by bundle, file and DAG id."""
    import lakemark_early_parses

    known: dict[tuple[str, str, str], bool] = {}
    now = lakemark_early_parses.Shown
    monkeypatch.setattr(
        lakemark_early_parses, "_paused_now", lambda: {now(*dag): is_paused for dag, is_paused in known.items()}
    )
    return known


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """Stands in for Airflow's table of DAGs, too: the files of those that it notes as full though they are not."""
    found: set[tuple[str, str]] = set()
    monkeypatch.setattr("lakemark_early_parses._held_up_now", lambda: found)
    return found


@pytest.fixture
def bundle(folder: Path, paused, held_up):
    from lakemark_bundle import PipelineBundle

    return PipelineBundle(name="lakemark")


def looked_at(bundle) -> set[str]:
    """The DAG files that have another time after a look than before it. All begin at one time, long ago."""
    for path in files(bundle):
        os.utime(bundle.path / path, (1, 1))
    bundle.refresh()
    return {path for path in files(bundle) if (bundle.path / path).stat().st_mtime > 1}


def files(bundle) -> set[str]:
    """As Airflow finds them."""
    found = list_py_file_paths(bundle.path, safe_mode=True)
    return {str(Path(path).relative_to(bundle.path)) for path in found}


def test_each_pipeline_file_has_a_dag_file_with_all_its_dags(folder: Path, bundle) -> None:
    pipeline_file(folder, "orders")
    pipeline_file(folder, "payments", sinks={"out": {"kafka": {"topic": "out"}}})
    bundle.initialize()
    bundle.refresh()
    assert files(bundle) == {"pipelines/orders.py", "pipelines/payments.py", *FIXED}
    loaded = DagBag(bundle.path)
    assert loaded.import_errors == {}
    of_pipelines = {f"lakemark__{name}{kind}" for name in ("orders", "payments") for kind in KINDS}
    assert set(loaded.dags) == {"lakemark_watch", "lakemark__payments__deliver__out", *of_pipelines}
    assert Path(loaded.dags["lakemark__orders__reset"].fileloc).name == "orders.py"


def test_with_the_bundle_the_dag_folder_makes_no_dag_twice(folder: Path, bundle) -> None:
    pipeline_file(folder, "orders")
    pipeline_file(folder, "broken", schedule="now and then")
    loaded = DagBag(PROJECT_ROOT / "dags")
    assert (set(loaded.dags), loaded.import_errors) == (OF_ALL - {"lakemark_watch"}, {})


def test_a_dag_file_has_a_new_time_when_its_pipeline_file_changes_and_once_more(folder: Path, bundle) -> None:
    """Once more, for a parse that had begun before the change and ends after it."""
    pipeline_file(folder, "orders")
    pipeline_file(folder, "payments")
    bundle.refresh()
    assert looked_at(bundle) == set()
    pipeline_file(folder, "orders", description="Another.")
    changed = {"pipelines/orders.py", "lakemark_watch.py"}
    assert [looked_at(bundle) for _ in range(3)] == [changed, changed, set()]
    (folder / "orders.yaml").unlink()
    assert looked_at(bundle) == {"lakemark_watch.py"}
    assert files(bundle) == {"pipelines/payments.py", *FIXED}


def test_it_has_so_once_airflow_keeps_what_it_parses_again(
    folder: Path, bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow keeps nothing that it parses within half a minute, by default, after it has kept another form."""
    monkeypatch.setenv("AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL", "30")
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    pipeline_file(folder, "orders")
    bundle.refresh()
    pipeline_file(folder, "orders", description="Another.")
    changed = {"pipelines/orders.py", "lakemark_watch.py"}
    assert [looked_at(bundle), looked_at(bundle)] == [changed, set()]
    now += 29
    assert (bundle.refresh_interval, looked_at(bundle)) == (3600, set())
    now += 1
    assert (bundle.refresh_interval, looked_at(bundle)) == (0, changed)
    assert (bundle.refresh_interval, looked_at(bundle)) == (3600, set())


def test_the_file_of_a_dag_that_airflow_takes_for_full_is_parsed(
    bundle, held_up, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would start no further run, as a person has ended one."""
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr("lakemark_early_parses._ask_to_parse", lambda *file: asked.append(file))
    bundle.refresh()
    held_up.add(("lakemark", "groups/g.py"))
    assert bundle.refresh_interval == 0
    bundle.refresh()
    assert asked == [("lakemark", "groups/g.py")]


def test_a_dag_file_has_a_new_time_when_another_file_takes_its_table(folder: Path, bundle) -> None:
    pipeline_file(folder, "outer")
    pipeline_file(folder, "other")
    bundle.refresh()
    bundle.refresh()
    pipeline_file(folder, "inner", target={"table": "lake://silver/outer/inner"})
    assert looked_at(bundle) == {"pipelines/inner.py", "pipelines/outer.py", "lakemark_watch.py"}
    assert looked_at(bundle) == {"pipelines/outer.py", "lakemark_watch.py"}
    loaded = DagBag(bundle.path)
    assert sorted(Path(path).name for path in loaded.import_errors) == ["inner.py", "outer.py"]
    pipeline_file(folder, "inner")  # now apart
    assert looked_at(bundle) == {"pipelines/inner.py", "pipelines/outer.py", "lakemark_watch.py"}
    assert DagBag(bundle.path).import_errors == {}


def test_each_broken_file_is_an_import_error_of_its_own(folder: Path, bundle) -> None:
    pipeline_file(folder, "good")
    pipeline_file(folder, "bad", schedule="now and then")
    (folder / "good.yml").write_text("name: good\n")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff'\"\\{}.yaml")).write_text("{}")
    bundle.refresh()
    loaded = DagBag(bundle.path)
    assert set(loaded.dags) == {"lakemark_watch", *(f"lakemark__good{kind}" for kind in KINDS)}
    errors = "\n".join(loaded.import_errors.values())
    assert len(loaded.import_errors) == 3
    assert f"{folder}/bad.yaml, field schedule" in errors
    assert f"{folder}/good.yml, field file" in errors
    assert "\\udcff" in errors


def test_a_broken_file_of_alerts_takes_no_dag_with_it(folder: Path, bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    alerts = folder.parent / "alerts.yml"
    monkeypatch.setenv("LAKEMARK_ALERTS", str(alerts))
    alerts.write_text("[]")
    bundle.refresh()
    bundle.refresh()
    alerts.write_text("- klass: a.B\n")
    assert looked_at(bundle) == {"lakemark_pipeline_errors.py"}
    loaded = DagBag(bundle.path)
    assert "lakemark_watch" in loaded.dags
    [text] = loaded.import_errors.values()
    assert "so no alert is sent" in text


def test_while_there_is_no_folder_no_dag_file_goes_away(folder: Path, bundle) -> None:
    pipeline_file(folder, "orders")
    bundle.refresh()
    away = folder.rename(folder.with_name("away"))
    bundle.refresh()
    assert files(bundle) == {"pipelines/orders.py", *FIXED}
    error = next(text for path, text in DagBag(bundle.path).import_errors.items() if path.endswith("_errors.py"))
    assert "there is no folder of pipeline files" in error
    away.rename(folder)
    assert "lakemark_pipeline_errors.py" in looked_at(bundle)
    assert DagBag(bundle.path).import_errors == {}


def test_a_worker_makes_the_dag_files_that_it_lacks(folder: Path, bundle) -> None:
    """On another machine than the DAG processor, nothing else does."""
    pipeline_file(folder, "orders")
    bundle.initialize()
    assert files(bundle) == {"pipelines/orders.py", *FIXED}
    os.utime(bundle.path / "pipelines/orders.py", (1, 1))
    bundle.initialize()
    assert (bundle.path / "pipelines/orders.py").stat().st_mtime == 1
    pipeline_file(folder, "payments")
    bundle.initialize()
    assert "pipelines/payments.py" in files(bundle)
    assert (bundle.path / "pipelines/orders.py").stat().st_mtime == 1


def test_a_task_does_not_read_all_pipeline_files(folder: Path, bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline_file(folder, "orders")
    bundle.refresh()
    monkeypatch.setattr("lakemark_bundle.dag_files", lambda *given: pytest.fail("it has read them"))
    type(bundle)(name="lakemark").initialize()


def test_it_is_refreshed_when_something_has_changed(folder: Path, bundle) -> None:
    """A refresh asks Airflow's database for all DAGs, so that one every few seconds is too much."""
    pipeline_file(folder, "orders")
    assert bundle.refresh_interval == 0
    bundle.refresh()
    assert bundle.refresh_interval == 3600
    pipeline_file(folder, "orders", description="Another.")
    assert bundle.refresh_interval == 0
    bundle.refresh()
    assert bundle.refresh_interval == 0  # the second time after a change
    bundle.refresh()
    assert bundle.refresh_interval == 3600


def test_the_file_of_a_dag_that_was_paused_or_unpaused_is_parsed(
    bundle, paused, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow starts and ends the trigger of a DAG that waits for data when it parses the DAG's file."""
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr("lakemark_early_parses._ask_to_parse", lambda *file: asked.append(file))
    paused |= {("lakemark", "pipelines/a.py", "a"): False, ("dags-folder", "b.py", "b"): True}
    bundle.refresh()
    bundle.refresh()
    assert (asked, bundle.refresh_interval) == ([], 3600)  # Airflow has just begun, and parses every file
    paused["dags-folder", "b.py", "b"] = False
    paused["lakemark", "pipelines/new.py", "new"] = True
    assert bundle.refresh_interval == 0
    bundle.refresh()
    assert asked == [("dags-folder", "b.py")]
    paused["lakemark", "pipelines/new.py", "new"] = False
    paused["lakemark", "pipelines/a.py", "a"] = True
    bundle.refresh()
    assert asked[1:] == [("lakemark", "pipelines/a.py"), ("lakemark", "pipelines/new.py")]
    assert bundle.refresh_interval == 3600


def test_what_goes_wrong_at_a_look_does_not_end_the_dag_processor(bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for the interval outside of what it guards."""

    def broken() -> None:
        raise OSError("the database is away")

    bundle.refresh()
    monkeypatch.setattr("lakemark_early_parses._paused_now", broken)
    assert bundle.refresh_interval == 0
    with pytest.raises(OSError, match="away"):
        bundle.refresh()
