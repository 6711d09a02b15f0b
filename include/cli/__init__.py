"""The command `lakemark`: one module per group of commands. Imports every other room."""
