"""Judges records and tables by suites of Great Expectations, and keeps the evidence. Imports `sources` and below."""
