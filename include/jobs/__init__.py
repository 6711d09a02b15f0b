"""Starts Spark jobs, wherever they run, and reads what they report. Imports `installation` and below."""
