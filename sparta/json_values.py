"""Types of parsed JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]  # an object of known fields
JsonMapping: TypeAlias = Mapping[str, Any]  # one that is only read
# Of unknown kind: code must check the kind before it uses the value.
JsonValue: TypeAlias = "int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
