"""The tables of the trust benchmark."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parent / "tables"
DISTRIBUTIONS = {"in": "as trained", "x2": "twice as large", "x3": "three times", "rough": "half the length scale"}


def write(measured: Mapping[str, Mapping[str, Any]], failed: Mapping[str, str]) -> None:
    """`tables/trust.md`."""
    lines = ["# Trust: what was said, held against references", "", *estimates(measured), "", *claims(measured)]
    lines += ["", *costs(measured)]
    if failed:
        lines += ["", "Not measured:", "", *(f"- {name}: {reason}" for name, reason in failed.items())]
    (TABLES / "trust.md").write_text("\n".join(lines) + "\n")


def estimates(measured: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Coverage and looseness of the 95% value."""
    lines = [
        "Coverage of the 95% value (median of value / truth; inputs that were called inside), 30 functions each:",
        "",
        f"| problem | level | mean error | {' | '.join(DISTRIBUTIONS.values())} |",
        f"|---|---|---|{'---|' * len(DISTRIBUTIONS)}",
    ]
    for name, result in measured.items():
        cells = [_coverage(result.get(kind)) for kind in DISTRIBUTIONS]
        lines.append(
            f"| {name} | {result['calibration']['level']} | {100 * result['in']['error']:.2g}% | {' | '.join(cells)} |"
        )
    return lines


def _coverage(row: Mapping[str, Any] | None) -> str:
    return "-" if row is None else f"{row['coverage_95']:.2f} ({row['looseness']:.2g}; {100 * row['inside']:.0f}%)"


def claims(measured: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What `solve` claimed and what was true, over all tolerances."""
    lines = [
        "`solve`: claims of all tolerances together, how many were false, and the worst true error in units of rtol:",
        "",
        f"| problem | {' | '.join(DISTRIBUTIONS.values())} |",
        f"|---|{'---|' * len(DISTRIBUTIONS)}",
    ]
    for name, result in measured.items():
        cells: list[str] = []
        for kind in DISTRIBUTIONS:
            rows = result.get(kind, {}).get("solve", [])
            asked = sum(len(row["done"]) for row in rows)
            claimed, false = (sum(row[key] for row in rows) for key in ("claims", "false"))
            worst = max((row["worst"] for row in rows), default=0.0)
            cells.append(f"{claimed} of {asked}, {false} false ({worst:.2g})" if asked else "-")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def costs(measured: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Milliseconds for a function."""
    names = {
        "predict": "predict",
        "predict_with_error": "with its error",
        "solve_at_ten_times_the_error": "solve at 10 x its error",
        "solve_at_the_error": "solve at its error",
        "solve_from_zero": "from zero",
    }
    lines = [
        "Milliseconds for a function (of 30; of 8 for the last two), after compilation, on a machine that others used:",
        "",
        f"| problem | {' | '.join(names.values())} |",
        f"|---|{'---|' * len(names)}",
    ]
    for name, result in measured.items():
        row = result["in"].get("costs")
        if row:
            lines.append(f"| {name} | {' | '.join(f'{row[key]:.2g}' for key in names)} |")
    return lines
