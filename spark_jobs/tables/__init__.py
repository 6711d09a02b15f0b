"""Writes Delta tables: the kinds of target (`scd1`, `scd2`), the archive, the quarantine. Imports `changes` and below."""
