"""The tables of the trust benchmark, and the numbers that the page about it says."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tables

DISTRIBUTIONS = {"in": "as trained", "x2": "twice as large", "x3": "three times", "rough": "half the length scale"}
COSTS = {
    "predict_with_error": "with its error",
    "solve_at_ten_times_the_error": "solve at 10 x its error",
    "correct": "correct to its error",
    "correct_from_zero": "the same from zero",
    "tailored": "tailored solver at its error",
}
PAGE = Path(__file__).parent.parent / "docs" / "trust.md"
BEGIN, END = "<!-- trust:begin -->", "<!-- trust:end -->"

Measured = Mapping[str, Mapping[str, Any]]


def write(measured: Measured, failed: Mapping[str, str]) -> None:
    """`tables/trust.md`, and the numbers in `docs/trust.md`."""
    failures = "\n".join(f"- {name}: {reason}" for name, reason in failed.items())
    tables.write(
        "trust",
        [
            "# Trust: what was said, held against references",
            "Coverage of the 95% value (median of value / truth; inputs that were called inside; those whose value was "
            "infinite, since nothing is known; predictions that were refused, since they were no numbers):",
            estimates(measured),
            "`solve`: claims of all tolerances together, how many were false, and the worst true error in units of "
            "rtol. In the distribution it was asked for 1e-1 to 1e-5, outside for 1e-2:",
            claims(measured),
            "Processor milliseconds of a prediction in a batch; the others as multiples of it, per function, after "
            "compilation. In brackets: the part of the functions for which the network's answer was accepted. "
            "Corrections are of batches of 16:",
            costs(measured),
            f"Not measured:\n\n{failures}" if failed else "",
        ],
    )
    PAGE.write_text(page(PAGE.read_text(), measured))


def page(text: str, measured: Measured) -> str:
    """The page with what was measured between its markers."""
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n{summary(measured)}\n{END}{rest.split(END)[1]}"


def summary(measured: Measured) -> str:
    """What the page says of the results."""
    rows = [[name, measured[name]["calibration"]["level"], *_covered(measured[name])] for name in measured]
    names = ["problem", "level", "mean error", *DISTRIBUTIONS.values(), "claims", "false"]
    asked, false, worst = (_sum(measured, key) for key in ("claims", "false", "worst"))
    within = _ratios(measured, "predict_with_error")
    solving = _ratios(measured, "solve_at_ten_times_the_error")
    warm = [c["correct_from_zero"] / c["correct"] for c in _all_costs(measured)]
    return "\n\n".join(
        [
            tables.markdown(names, rows),
            f"`solve` made {asked:.0f} claims, of which {false:.0f} were false; the worst true error was {worst:.2g} "
            f"times what was asked for. A prediction with its error took {_span(within)} times as long as one without, "
            f"`solve` at ten times the network's mean error {_span(solving)} times. Corrected to the network's mean "
            f"error, a start from its answer was {_span(warm)} times as fast as one from zero.",
        ]
    )


def _covered(result: Mapping[str, Any]) -> list[str]:
    shown = [f"{result[kind]['coverage_95']:.2f}" if kind in result else "–" for kind in DISTRIBUTIONS]
    claims, false = (sum(row[key] for row in _claims(result)) for key in ("claims", "false"))
    return [tables.percent(result["in"]["error"]), *shown, f"{claims}", f"{false}"]


def _claims(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for kind in DISTRIBUTIONS for row in result.get(kind, {}).get("solve", [])]


def _sum(measured: Measured, key: str) -> float:
    values = [row[key] for result in measured.values() for row in _claims(result)]
    return max(values, default=0.0) if key == "worst" else sum(values)


def _all_costs(measured: Measured) -> list[Mapping[str, Any]]:
    return [result["in"]["costs"] for result in measured.values()]


def _ratios(measured: Measured, key: str) -> list[float]:
    return [costs[key] / costs["predict"] for costs in _all_costs(measured)]


def _two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"


def _span(values: Sequence[float]) -> str:
    low, high = (_two_digits(value) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def estimates(measured: Measured) -> str:
    """Coverage and looseness of the 95% value."""
    rows = [
        [
            name,
            str(result["training"]["recipe"]),
            result["calibration"]["level"],
            tables.percent(result["in"]["error"]),
            *(_coverage(result.get(kind)) for kind in DISTRIBUTIONS),
        ]
        for name, result in measured.items()
    ]
    return tables.markdown(["problem", "recipe", "level", "mean error", *DISTRIBUTIONS.values()], rows)


def _coverage(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "–"
    loose = "–" if row["looseness"] is None else _two_digits(row["looseness"])
    unknown, refused = row.get("unknown", 0.0), row.get("refused", 0)
    more = (f", {100 * unknown:.0f}% unknown" if unknown else "") + (f", {refused} refused" if refused else "")
    return f"{row['coverage_95']:.2f} ({loose}; {100 * row['inside']:.0f}%{more})"


def claims(measured: Measured) -> str:
    """What `solve` claimed and what was true, over all tolerances."""
    rows: list[list[str]] = []
    for name, result in measured.items():
        cells: list[str] = []
        for kind in DISTRIBUTIONS:
            of_kind = result.get(kind, {}).get("solve", [])
            asked = sum(len(row["done"]) for row in of_kind)
            claimed, false = (sum(row[key] for row in of_kind) for key in ("claims", "false"))
            worst = max((row["worst"] for row in of_kind), default=0.0)
            cells.append(f"{claimed} of {asked}, {false} false ({worst:.2g})" if asked else "–")
        rows.append([name, *cells])
    return tables.markdown(["problem", *DISTRIBUTIONS.values()], rows)


def costs(measured: Measured) -> str:
    """Milliseconds of a prediction, and multiples of it."""
    rows: list[list[str]] = []
    for name, result in measured.items():
        found = result["in"]["costs"]
        shown = {k: _two_digits(found[k] / found["predict"]) if found.get(k) is not None else "–" for k in COSTS}
        shown["solve_at_ten_times_the_error"] += f" ({100 * found['accepted_at_ten_times_the_error']:.0f}%)"
        rows.append([name, f"{found['predict']:.2g} ms", *shown.values()])
    return tables.markdown(["problem", "predict", *COSTS.values()], rows)
