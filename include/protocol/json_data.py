"""JSON data as types.

The values are `Any`: only the code that reads a field knows what type it has. A recursive type would ask for a check at
every step into the data, and would find nothing that the tests do not find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JsonValue = Any
JsonObject = dict[str, Any]
JsonMapping = Mapping[str, Any]  # the same, where it is only read
