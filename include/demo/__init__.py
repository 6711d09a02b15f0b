"""Runs the demo. An oracle that imports nothing from Lakemark checks it. Imports the rooms that it demonstrates."""
