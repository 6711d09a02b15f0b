"""The command `lakemark`: one module per group of commands. It may import every other room."""


def main() -> int:
    """What an installed script calls. Scripts from earlier set-ups call `include.cli:main` too, so the name stays."""
    from include.cli import command  # late: whoever needs one module of this room does not import all commands

    return command.main()
