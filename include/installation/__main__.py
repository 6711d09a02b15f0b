"""`python -m include.installation [USE ...]`: Java and JARs, the part of `make setup` that is not Python packages."""

from __future__ import annotations

import sys

from include.installation.jars import OF_SETUP, USES, fetch_jars
from include.installation.java import find_java
from include.installation.spark_classes import compile_spark_classes
from include.protocol.errors import LakemarkError
from include.settings import Settings


def main() -> int:
    settings = Settings.from_environment()
    java = find_java(settings.java, settings.home / "java")
    print(f"Java: {java.origin}")
    try:
        uses = [use for use in USES if use in sys.argv[1:]] or OF_SETUP
        came = fetch_jars(settings.jars, java, settings.environment.get("SSL_CERT_FILE"), uses)
        compile_spark_classes(settings.jars, java)
    except LakemarkError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"[setup 4/4] JARs for {' and '.join(uses)} in {settings.jars}, {came} of them fetched now")
    return 0


sys.exit(main())
