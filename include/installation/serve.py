"""`python -m include.installation.serve PART ...`: the supervisor, the process that `lakemark up` leaves running."""

from __future__ import annotations

import sys

from include.installation.stack import Stack
from include.installation.supervisor import Supervisor
from include.settings import Settings

if __name__ == "__main__":
    stack = Stack.of(Settings.from_environment())
    Supervisor(stack.services(sys.argv[1:]), stack.settings.logs, stack.state_file).run()
