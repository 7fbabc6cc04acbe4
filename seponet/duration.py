"""Lengths of time as people write them."""

import re

SECONDS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}


def parse_duration(text: str) -> float:
    """Seconds from "90", "90s", "5min" or "1.5h"."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", text)
    if found is None or found[2] not in SECONDS:
        raise ValueError(f"a duration is a number with s, min or h, for instance 5min; got {text!r}")
    return float(found[1]) * SECONDS[found[2]]


def show_duration(seconds: float) -> str:
    """A few digits with a fitting unit."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
