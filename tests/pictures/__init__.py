"""Draws and takes the pictures of the docs: `make rooms`, `make pictures`."""
