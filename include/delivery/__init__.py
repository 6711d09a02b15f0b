"""Delivers what has landed in the lake to the sinks outside of it. Needs no Spark."""
