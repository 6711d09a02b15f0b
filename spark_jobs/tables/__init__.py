"""Writes Delta tables: targets (`scd1`, `scd2`), the archive, the quarantine. Imports `changes` and below.

What it knows of a table is a `TableSpec`, never the whole pipeline file.
"""
