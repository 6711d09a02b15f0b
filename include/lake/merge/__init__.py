"""Merges a batch into a Delta table without Spark: new rows in one file, deletion vectors for what they replace."""
