"""Cuts of all tables together: to look at, to go back to, to keep. Imports `control` and below."""
