"""Factories of the DAGs that a pipeline file makes: one file for each kind of them, with a function `build`.

Airflow does not look for DAGs here (`../.airflowignore`). It has one small DAG file for each pipeline file, which the
bundle makes (plugins/lakemark_bundle.py), or ../lakemark_pipelines.py for all of them.
"""
