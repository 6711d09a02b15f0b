"""Looks at the code itself: its rooms, its statements, its docs."""
