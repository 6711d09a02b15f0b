"""The command `lakemark`: one module per group of commands. It may import every other room."""
