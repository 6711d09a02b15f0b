"""Savepoints: checkpoints with a name, which stay until somebody drops them, and can be carried elsewhere."""
