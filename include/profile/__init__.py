"""Reads Spark's event log: where a batch's time went. Imports nothing from Lakemark."""
