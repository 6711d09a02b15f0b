"""Lakemark without Airflow and without Spark: rooms on floors, and a room imports only from floors below its own."""
