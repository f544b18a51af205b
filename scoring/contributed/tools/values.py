"""Values of a log, which may be absent or of any type: None where they are not of the type that is meant."""

import math
from typing import Any


def text(value: object) -> str | None:
    """A string that is not empty."""
    return value if isinstance(value, str) and value else None


def whole(value: object) -> int | None:
    """A whole number from 0 that fits in 32 bits."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def number(value: object) -> float | None:
    """A finite number from 0."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
    return float(value) if fits and value < 1e300 else None  # type: ignore[arg-type, operator]


def texts(value: object) -> tuple[str, ...]:
    """The strings of a list, or a lone string."""
    return tuple(item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str))


def item(value: object, *path: str) -> Any:
    """What is at a path of names in nested objects; None where there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def objects(value: object) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [element for element in value if isinstance(element, dict)] if isinstance(value, list) else []
