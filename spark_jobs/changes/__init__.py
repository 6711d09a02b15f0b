"""From records to changes: read, decode, transform, judge, reduce. Imports `formats` and `engine`."""
