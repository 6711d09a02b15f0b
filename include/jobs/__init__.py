"""Starts Spark jobs, wherever they run, and reads what they report. Imports `pipeline_file`, `installation` and below."""
