"""The README's table of what general recipes learn of other people's PDEs."""

from collections.abc import Callable, Iterable, Mapping
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
    quick = rows["quick"].values()
    good = sum(row["relative_l2_mean"] <= 0.01 for row in quick)
    fair = sum(row["relative_l2_mean"] <= 0.05 for row in quick)
    every = [row for of_recipe in rows.values() for row in of_recipe.values()]
    silent = sum(row["success"] and row["relative_l2_mean"] > 0.1 for row in every)
    lines = [
        "",
        "The same PDEs, learned: general recipes as they are (`seponet bench zoo --train --recipe quick`), one seed,",
        "one core, 100 unseen functions against independent references. With `quick` the mean error is at most 1% on "
        f"{good} and at",
        f"most 5% on {fair} of {len(rows['quick'])}; of the runs with an error above 10%, {silent} ended as a success. "
        "Published are errors of the",
        "physics-only operator of arXiv 2609.36216 on its own tasks:",
        "",
        "| PDE | `quick`: mean (median, largest) | seconds | `standard` | solved, no network | published | said |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in names:
        quick_row, standard_row = rows["quick"].get(name), rows["standard"].get(name)
        row = quick_row or standard_row
        assert row is not None
        shown = [
            name,
            _errors(quick_row, percent),
            "" if quick_row is None else f"{quick_row['seconds']:.0f}",
            _errors(standard_row, percent),
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
