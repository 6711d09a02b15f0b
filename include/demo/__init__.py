"""Runs the demo, end to end, and checks it with an oracle that imports nothing from Lakemark. Imports what it shows."""
