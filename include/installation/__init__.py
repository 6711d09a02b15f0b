"""Finds Java, fetches JARs, and runs the services of one machine. Imports `settings` and `protocol`."""
