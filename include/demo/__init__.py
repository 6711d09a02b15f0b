"""Runs the demo, end to end, and checks it by an oracle that imports nothing of Lakemark. Imports what it shows."""
