"""`python -m include.installation`: Java and JARs, the part of `make setup` that is not Python packages."""

from __future__ import annotations

import sys

from include.installation.jars import fetch_jars, pinned_jars
from include.installation.java import find_java
from include.protocol.errors import LakemarkError
from include.settings import Settings


def main() -> int:
    settings = Settings.from_environment()
    java = find_java(settings.java, settings.home / "java")
    print(f"Java: {java.origin}")
    try:
        came = fetch_jars(settings.jars, java, settings.environment.get("SSL_CERT_FILE"))
    except LakemarkError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"[setup 4/4] {len(pinned_jars())} JARs in {settings.jars}, {came} of them fetched now")
    return 0


sys.exit(main())
