"""Turns records into changes: read, decode, transform, judge, reduce. Imports `formats` and `engine`."""
