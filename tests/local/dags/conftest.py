"""Airflow reads its environment when it is imported: give it a home of its own before that."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_home = tempfile.mkdtemp(prefix="lakemark-airflow-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ |= {
    "AIRFLOW_HOME": _home,
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(Path(__file__).resolve().parents[3] / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_home}/airflow.db",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
}
