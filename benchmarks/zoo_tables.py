"""The table of what general recipes learn of other people's PDEs."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

PUBLISHED = {"PoissonSines": 0.051, "AllenCahn": 0.032}
"""Errors of a physics-only operator on these tasks, as arXiv 2609.36216 quotes them for its own method."""

RECIPES = ("quick", "standard")


def trained_table(
    stored: Callable[[str], dict[str, Any] | None], percent: Callable[[float], str], solved: Mapping[str, float]
) -> list[str]:
    """Lines of Markdown; none if nothing is stored.

    **Arguments:**

    - `stored`: a result by its name.
    - `percent`: how an error is written.
    - `solved`: by PDE, the true mean error of solutions without a network.
    """
    rows = {recipe: _by_problem(stored, recipe, solved) for recipe in RECIPES}
    names = [name for name in solved if any(name in of_recipe for of_recipe in rows.values())]
    if not names:
        return []
    every = [row for of_recipe in rows.values() for row in of_recipe.values()]
    silent = sum(row["success"] and row["relative_l2_mean"] > 0.1 for row in every)
    lines = [
        "",
        "The same PDEs, learned: general recipes as they are (`seponet bench zoo --train --recipe standard`), one",
        "seed, one core, 100 unseen functions against independent references; seconds are the processor's, of all.",
        *(_summary(f"With `{recipe}`", of_recipe.values()) for recipe, of_recipe in rows.items() if of_recipe),
        _summary("With the longer of those that were measured", {**rows["quick"], **rows["standard"]}.values()),
        *_missing(stored, [name for name in solved if name not in names]),
        f"Of the runs with an error above 10%, {silent} ended as a success. Published are errors of the physics-only",
        "operator of arXiv 2609.36216 on its own tasks:",
        "",
        "| PDE | `quick`: mean (median, largest) | seconds | `standard` | seconds | solved, no network | published "
        "| said |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        quick_row, standard_row = rows["quick"].get(name), rows["standard"].get(name)
        row = standard_row or quick_row
        assert row is not None
        shown = [
            name,
            _errors(quick_row, percent),
            _seconds(quick_row),
            _errors(standard_row, percent),
            _seconds(standard_row),
            percent(solved[name]),
            percent(PUBLISHED[name]) if name in PUBLISHED else "",
            "good" if row["success"] else "not to be used",
        ]
        lines.append(f"| {' | '.join(shown)} |")
    return lines


def _by_problem(
    stored: Callable[[str], dict[str, Any] | None], recipe: str, names: Iterable[str]
) -> dict[str, dict[str, Any]]:
    cells = {name: stored(f"zoo/{name}-{recipe}-0") for name in names}
    return {name: cell["result"] for name, cell in cells.items() if cell is not None and cell["status"] == "measured"}


def _errors(row: Mapping[str, Any] | None, percent: Callable[[float], str]) -> str:
    if row is None:
        return ""
    mean, median, largest = (percent(row[f"relative_l2_{which}"]) for which in ("mean", "median", "max"))
    return f"**{mean}** ({median}, {largest})"


def _seconds(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else f"{row['processor_seconds']:.0f}"


def _summary(which: str, rows: Collection[Mapping[str, Any]]) -> str:
    good, fair = (sum(row["relative_l2_mean"] <= limit for row in rows) for limit in (0.01, 0.05))
    return f"{which}, the mean error is at most 1% on {good} and at most 5% on {fair} of {len(rows)} PDEs."


def _missing(stored: Callable[[str], dict[str, Any] | None], names: Iterable[str]) -> list[str]:
    """PDEs without an error: runs that failed, in their own words, and those that were not run."""
    lines, never = [], []
    for name in names:
        cells = {recipe: stored(f"zoo/{name}-{recipe}-0") for recipe in RECIPES}
        reasons = [f"`{r}` failed ({c['result']['reason']})" for r, c in cells.items() if c is not None]
        lines += [f"{name}: {'; '.join(reasons)}."] if reasons else []
        never += [] if reasons else [name]
    return lines + ([f"Not measured yet: {', '.join(never)}."] if never else [])
