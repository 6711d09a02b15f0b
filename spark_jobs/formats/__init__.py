"""Decodes the bytes of records: one module per format, and the contract that they share. Imports `include`."""
