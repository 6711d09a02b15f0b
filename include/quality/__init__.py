"""Data quality: suites of rules in Great Expectations' JSON, judged in the pass that reads a batch."""
