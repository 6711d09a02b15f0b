"""Lakemark on Spark: rooms on floors, and a room imports only from floors below its own. May import `include`, and
neither Airflow nor plugins.
"""
