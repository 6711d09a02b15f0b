"""Audits a table against the ledger, the log and the records themselves. Imports `control` and below."""
