"""Numbers that a user gives for an argument: checked, with one sentence for what is none."""

import numbers
from typing import Any


def whole(name: str, value: Any, least: int, most: int) -> int:
    """A whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not least <= int(value) <= most:
        raise ValueError(f"{name} must be a whole number between {least:,} and {most:,}; got {_show(value)}")
    return int(value)


def real(name: str, value: Any, least: float, most: float) -> float:
    """A number within bounds, which leaves out NaN."""
    if not is_real(value) or not least <= value <= most:
        raise ValueError(f"{name} must be a number between {least:g} and {most:g}; got {_show(value)}")
    return float(value)


def is_real(value: Any) -> bool:
    """Whether something is a real number; truth values are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _show(value: Any) -> str:
    return f"{value!r:.60}" if isinstance(value, numbers.Number | str) else f"a {type(value).__name__}"
