"""Text for people: sizes, lengths of time, hints at what was meant; and numbers as JSON has them."""

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any


def show_bytes(count: float) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


SECONDS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}

LONGEST = 1e10
"""Seconds of the longest duration: three hundred years."""


def parse_duration(text: str) -> float:
    """Seconds from "90", "90s", "5min" or "1.5h"."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", text)
    if match is None or match[2] not in SECONDS:
        raise ValueError(f"a duration is a number with s, min or h, for instance 5min; got {text!r}")
    seconds = float(match[1]) * SECONDS[match[2]]
    if seconds > LONGEST:
        raise ValueError(f"a duration is at most {LONGEST:g} s; got {text[:60]!r}")
    return seconds


def show_duration(seconds: float) -> str:
    """A few digits with a fitting unit."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is nearest to a mistaken one, if any is near."""
    near = difflib.get_close_matches(word.lower().replace("-", "_"), list(known), n=1, cutoff=0.4)
    return near[0] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to put behind the mistaken word, or nothing."""
    near = nearest(word, known)
    return f" (did you mean {near!r}?)" if near else ""


def plain(report: Any) -> Any:
    """The same with None for what is not a finite number, which JSON has no word for."""
    if isinstance(report, Mapping):
        return {key: plain(value) for key, value in report.items()}
    if isinstance(report, list):
        return [plain(value) for value in report]
    return None if isinstance(report, float) and not math.isfinite(report) else report


def percent(value: float) -> str:
    """A relative error for readers: two digits, in per cent; tiny ones as powers of ten."""
    if not value < float("inf"):
        return "unknown"
    if value >= 0.995:
        return f"{100 * value:.0f}%"
    return f"{100 * value:.2g}%" if value >= 1e-7 else f"{value:.0e}"
