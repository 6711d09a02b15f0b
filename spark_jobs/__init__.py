"""Lakemark on Spark. A room imports only from floors below its own. It may import `include`, but neither Airflow nor
plugins.
"""
