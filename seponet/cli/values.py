"""The values of options: text from the command line, checked; a mistake is a wrong call."""

import argparse
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

MOST = 10**6
"""The most functions, and points along an axis, that a command takes."""


def read_setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        raise argparse.ArgumentTypeError(f"a setting is written key=value, for instance train.steps=300; got {text!r}")
    try:
        tables = tomllib.loads(f"value = {value}")
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
        return key.strip(), value.strip()
    # A line break would begin a setting of its own.
    return key.strip(), tables["value"] if set(tables) == {"value"} else value.strip()


def count_from(least: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        if not text.isdecimal() or not text.isascii() or not least <= int(text[:20]) <= MOST or len(text) > 20:
            raise argparse.ArgumentTypeError(f"expected a number between {least} and {MOST:,}; got {text[:60]!r}")
        return int(text)

    return count


def read_seed(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isdecimal() and digits.isascii()) or len(digits) > 20 or not -(2**63) <= int(text) < 2**63:
        raise argparse.ArgumentTypeError(f"a seed is a whole number of at most 63 bits; got {text[:60]!r}")
    return int(text)


def read_tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"a tolerance is a number between 0 and 1, like 1e-4; got {text[:60]!r}")
    return value


def constants_of(settings: Sequence[tuple[str, Any]], what: str) -> dict[str, Any]:
    """The constants of a problem among the settings of `--set`; others mean nothing to what has no recipe."""
    constants: dict[str, Any] = {}
    for key, value in settings:
        table, _, name = key.partition(".")
        if table != "constants" or not name:
            raise ValueError(f"{what} depends on constants only, for instance constants.nu=0.02; got {key!r}")
        constants[name] = value
    return constants


def read_grid(text: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for part in text.split(","):
        name, count = (word.strip() for word in (part.partition("=")[0], part.partition("=")[2]))
        if not name or not (count.isdecimal() and count.isascii()) or len(count) > 20 or int(count) < 1:
            raise argparse.ArgumentTypeError(f"a grid is written t=101,x=256; got {text[:60]!r}")
        if name in counts:
            raise argparse.ArgumentTypeError(f"a grid has one number for each axis; got {name!r} twice")
        counts[name] = int(count)
    return counts


def read_duration(text: str) -> float:
    from .._text import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
