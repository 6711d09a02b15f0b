from __future__ import annotations

from pathlib import Path

import pytest

from include.pipeline_file import Pipeline
from include.pipeline_file.transform_file import verify_transform
from include.protocol.errors import TransformError
from include.settings import Settings


def a_pipeline(file: str) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "p",
            "source": {"bootstrap_servers": "k", "topics": ["t"], "schema": "id INT"},
            "transform": {"file": file, "schema": "id INT"},
            "change": {"keys": ["id"]},
            "target": {"table": "lake://silver/p"},
        }
    )


@pytest.mark.parametrize(
    ("file", "text", "where"),
    [
        ("a.sql", None, "a.sql"),
        ("a.sql", "SELECT id,\n (FROM changes", "a.sql, line 2"),
        ("a.sql", "SELECT 1; SELECT 2", "a.sql"),
        ("a.sql", "DROP TABLE t", "a.sql"),
        ("a.py", "def transform(changes, references):\n  return (", "a.py, line 2"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_line(
    tmp_path: Path, file: str, text: str | None, where: str
) -> None:
    settings = Settings.from_environment({"LAKEMARK_HOME": str(tmp_path), "LAKEMARK_TRANSFORMS": str(tmp_path)})
    if text is not None:
        (tmp_path / file).write_text(text)
    with pytest.raises(TransformError) as raised:
        verify_transform(settings, a_pipeline(file))
    assert raised.value.where == f"p, {tmp_path}/{where}"


def test_sql_and_python_that_can_be_read_are_left_to_spark(tmp_path: Path) -> None:
    settings = Settings.from_environment({"LAKEMARK_HOME": str(tmp_path), "LAKEMARK_TRANSFORMS": str(tmp_path)})
    (tmp_path / "a.sql").write_text("-- a note\nWITH x AS (SELECT * FROM changes) SELECT *, explode(y) AS z FROM x;")
    (tmp_path / "a.py").write_text("def transform(changes, references):\n    return changes\n")
    for file in ("a.sql", "a.py"):
        verify_transform(settings, a_pipeline(file))
