"""Where a pipeline's tables are."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.participants.catalog import places_of
from include.pipeline_file import Pipeline
from include.settings import Settings

OWN = {"ledger", "quarantine", "resolutions", "quality", "backfill", "checkpoints", "savepoints"}


@pytest.mark.parametrize(
    ("sections", "tables"),
    [
        ({}, {"silver/p"}),
        ({"archive": "lake://bronze/p"}, {"silver/p", "bronze/p"}),
        ({"target": {"table": "lake://silver/p", "history_table": "lake://silver/h"}}, {"silver/p", "silver/h"}),
        ({"archive": "lake://bronze/p", "merge_every": 3}, {"silver/p", "bronze/p"}),
    ],
)
def test_all_that_the_halves_of_a_pipeline_write(tmp_path: Path, sections: dict, tables: set[str]) -> None:
    settings = Settings.from_environment({"LAKEMARK_HOME": str(tmp_path)})
    pipeline = Pipeline.model_validate(
        {
            "name": "p",
            "source": {"bootstrap_servers": "k", "topics": ["t"], "schema": "id BIGINT, name STRING"},
            "change": {"keys": ["id"], "order_by": ["name"]},
            "target": {"table": "lake://silver/p"},
            **sections,
        }
    )
    names = [half.name for half in pipeline.halves]
    own = {f"_lakemark/{folder}/{name}" for folder in OWN for name in names}
    written = {path for half in pipeline.halves for path in places_of(settings, half)}
    assert {str(Path(str(path)).relative_to(str(settings.lake))) for path in written} == tables | own
