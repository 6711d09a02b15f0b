"""Commands about quality say what the files say wrong, without Spark. The address of Spark leads nowhere here."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from include.cli.command import main


@pytest.fixture
def pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "p.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "p",
                "source": {"bootstrap_servers": "k:1", "topics": ["t"], "schema": "id BIGINT, at TIMESTAMP"},
                "change": {"keys": ["id"], "order_by": ["at"]},
                "target": {"table": "lake://silver/p"},
            }
        )
    )
    monkeypatch.setenv("LAKEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LAKEMARK_PIPELINES", str(folder))
    monkeypatch.setenv("LAKEMARK_SPARK_REMOTE", "sc://127.0.0.1:1")
    return folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["quality", "check", "p"], "field quality.table"),
        (["query", "p", "SELECT * FROM fresh"], "this pipeline's table has no view `fresh`"),
    ],
)
def test_what_the_file_lacks_is_said_without_spark(
    pipelines: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(arguments) == 1
    assert said in capsys.readouterr().err


def test_data_docs_are_built_without_a_broken_file_which_is_told(
    pipelines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (pipelines / "broken.yaml").write_text("name: broken\n")
    assert main(["quality", "docs", "--to", str(tmp_path / "site")]) == 1
    assert (tmp_path / "site" / "index.html").exists()
    told = capsys.readouterr()
    assert "broken.yaml" in told.err
    assert "index.html" in told.out
