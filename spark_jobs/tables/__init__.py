"""Writes Delta tables: targets (`scd1`, `scd2`), the archive, the quarantine. Imports `changes` and below."""
