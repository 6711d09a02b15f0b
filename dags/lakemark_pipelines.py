"""All DAGs of all valid files in include/pipelines/: for an Airflow that has dags/ as a plain DAG folder.

It is parsed as a whole, again and again. With the bundle (plugins/lakemark_bundle.py) there is a DAG file for each
pipeline file instead, which is parsed when that file changes, and this one is empty.
"""

from __future__ import annotations

from lakemark_bundle import is_configured  # in plugins/, which Airflow puts on the path

from dags.factories.of_file import dags_of_all

if not is_configured():
    globals().update(dags_of_all())
