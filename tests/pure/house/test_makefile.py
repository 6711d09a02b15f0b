"""`make test` runs all tests, in parts."""

from __future__ import annotations

import re
import tomllib

from include.settings import PROJECT_ROOT

PARTS = ("WITHOUT_JVM", "WITH_JVM", "IN_AIRFLOW", "OLDER_VERSIONS")


def test_the_parts_are_all_tests() -> None:
    makefile = (PROJECT_ROOT / "Makefile").read_text()
    parts = [path for name in PARTS for path in re.findall(rf"^{name} := (.*)$", makefile, re.M)]
    settings = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())
    assert sorted(" ".join(parts).split()) == sorted(settings["tool"]["pytest"]["ini_options"]["testpaths"])
