"""Exponents of the scaling laws with intervals, their table, and the figure."""

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tables
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter
from scipy.optimize import least_squares
from study import Finished

from seponet.drawing.style import LINES, TEXT, new_figure, style_lines

FIGURE = Path(__file__).parent / "figures" / "laws.png"
QUANTITIES = {
    "functions": "different functions",
    "points": "points of the grid",
    "rank": "terms of the sum",
    "width": "parameters, by width",
    "steps": "operations, by steps",
}
"""The quantities that were changed, and what is drawn across: the number in a result that follows."""
ACROSS = {"functions": "functions", "points": "points", "rank": "rank", "width": "parameters", "steps": "flops"}
NAMES = {"learned": "learned trunks", "classical": "classical trunks"}
RESAMPLES, INTERVAL = 200, (5, 95)
"""Bootstrap samples over seeds, and the percentiles of their exponents."""

SEEN, FEWEST = 1.5, 3
"""For an exponent to mean anything, errors fall by this factor, and so many are so many times as large as the floor."""

Errors = Mapping[float, Sequence[float]]
"""The errors of all seeds, by the value of the quantity."""


@dataclass(frozen=True)
class Power:
    r"""$e(x) = f + a x^{-b}$, fitted to logarithms of errors.

    - `exponent`: b; `low` and `high` are its interval.
    - `floor`: f, what no more of this quantity takes away.
    - `scale`: a.
    """

    scale: float
    exponent: float
    floor: float
    low: float = np.nan
    high: float = np.nan

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.floor + self.scale * x**-self.exponent


def fit(errors: Errors, seed: int = 0) -> Power | None:
    """The law of some errors; None if there are too few values. The interval is a bootstrap over the seeds."""
    if len(errors) < 4:
        return None
    best = _fit({x: list(values) for x, values in errors.items()})
    if min(map(len, errors.values())) < 2:
        return best
    draw = np.random.default_rng(seed)
    samples = [_fit({x: draw.choice(v, len(v)) for x, v in errors.items()}).exponent for _ in range(RESAMPLES)]
    low, high = np.percentile(samples, INTERVAL)
    return Power(best.scale, best.exponent, best.floor, float(low), float(high))


def _fit(errors: Mapping[float, Any]) -> Power:
    x = np.array(sorted(errors))
    means = np.array([np.mean(np.log(errors[value])) for value in x])
    middle = float(np.exp(np.mean(np.log(x))))

    def model(p: np.ndarray) -> np.ndarray:
        return np.logaddexp(p[0] - p[1] * np.log(x / middle), p[2])

    starts = [(means.mean(), b, means.min() - gap) for b in (0.3, 1.0, 3.0) for gap in (0.1, 1.0, 5.0)]
    # A floor far below all errors is none.
    bounds = ([-np.inf, 0.0, means.min() - 7.0], [np.inf, 20.0, means.min() + 0.5])
    found = min((least_squares(lambda p: model(p) - means, s, bounds=bounds) for s in starts), key=lambda f: f.cost)
    size, exponent, floor = found.x
    return Power(float(np.exp(size + exponent * np.log(middle))), float(exponent), float(np.exp(floor)))


def laws(found: Finished) -> dict[tuple[str, str, str], tuple[Errors, int]]:
    """Errors by (problem, trunks, quantity), the base's among them, and how many trainings diverged."""
    collected: dict[tuple[str, str, str], dict[tuple[str, int], list[tuple[float, float]]]] = {}
    for axis, key in ACROSS.items():
        for outcome in found.values():
            cell, result = outcome.cell, outcome.result
            if outcome.measured and cell["axis"] in (axis, "base"):
                of_cells = collected.setdefault((cell["problem"], cell["trunks"], axis), {})
                error = result.get("relative_l2_mean", np.nan)
                # Seeds belong together, even if a later XLA has counted other operations.
                of_cells.setdefault((cell["axis"], cell["value"]), []).append((float(result[key]), error))
    merged = {name: _merged(of_cells.values()) for name, of_cells in collected.items()}
    return {name: of for name, of in merged.items() if len(of[0]) > 1}


def _merged(cells: Collection[Sequence[tuple[float, float]]]) -> tuple[Errors, int]:
    """Finite errors by the mean of what is drawn across, and how many are not finite."""
    errors: dict[float, list[float]] = {}
    for seeds in cells:
        known = [(x, error) for x, error in seeds if np.isfinite(error)]
        if known:
            errors.setdefault(statistics.fmean(x for x, _ in known), []).extend(error for _, error in known)
    return errors, sum(not np.isfinite(error) for seeds in cells for _, error in seeds)


def write(found: Finished) -> None:
    """`tables/laws.md` and `figures/laws.png`."""
    known = laws(found)
    powers = {name: fit(errors) for name, (errors, _) in known.items()}
    # A problem is shown as soon as there is one law of it.
    begun = {name[0] for name, power in powers.items() if power is not None}
    known = {name: of for name, of in known.items() if name[0] in begun}
    powers = {name: power for name, power in powers.items() if name in known}
    if not known:
        return
    rows = [_row(name, *known[name], power) for name, power in powers.items()]
    seeds = {outcome.cell["seed"] for outcome in found.values()}
    tables.write(
        "laws",
        [
            "# Scaling laws",
            "Mean relative L2 error of 100 unseen functions, e = floor + a x^(-exponent), fitted to the geometric "
            f"means of {len(seeds)} seed{'' if len(seeds) == 1 else 's'}; intervals of 90% are a bootstrap over them. "
            "One quantity is changed at a time, the others are the base's; so the floor is what the others leave. "
            f"Where fewer than {FEWEST} values have errors above {SEEN} floors, or errors fall by less than that "
            "factor, there is no exponent to see.",
            tables.markdown(["problem", "trunks", "x", "from", "to", "errors", "exponent", "90%", "floor"], rows),
        ],
    )
    _draw(known, powers)


def _row(name: tuple[str, str, str], errors: Errors, lost: int, power: Power | None) -> list[str]:
    problem, trunks, axis = name
    x = sorted(errors)
    first, last = (tables.percent(statistics.geometric_mean(errors[value])) for value in (x[0], x[-1]))
    count = f"{first} to {last}" + (f", {lost} diverged" if lost else "")
    row = [tables.title(problem), NAMES[trunks], QUANTITIES[axis], f"{x[0]:.3g}", f"{x[-1]:.3g}", count]
    if power is None or not visible(errors, power):
        return [*row, "none to see", "–", "–" if power is None else tables.percent(power.floor)]
    interval = f"{power.low:.2f} to {power.high:.2f}" if np.isfinite(power.low) else "one seed"
    least = min(min(values) for values in errors.values())
    floor = tables.percent(power.floor) if power.floor > 0.05 * least else "none to see"
    return [*row, f"{power.exponent:.2f}", interval, floor]


def visible(errors: Errors, power: Power) -> bool:
    """Whether errors fall, and enough of them are far enough above the floor, for an exponent."""
    means = [statistics.geometric_mean(values) for values in errors.values()]
    return max(means) > SEEN * min(means) and sum(mean > SEEN * power.floor for mean in means) >= FEWEST


def _draw(known: Mapping[tuple[str, str, str], tuple[Errors, int]], powers: Mapping[Any, Power | None]) -> None:
    problems = sorted({name[0] for name in known}, reverse=True)
    figure = new_figure(2.1 * len(problems) + 0.5, 9.0)
    panels = figure.subplots(len(problems), len(QUANTITIES), sharey="row", squeeze=False)
    for row, problem in enumerate(problems):
        for column, (axis, label) in enumerate(QUANTITIES.items()):
            axes: Axes = panels[row, column]
            for colour, trunks in zip(LINES, NAMES, strict=False):
                name = problem, trunks, axis
                if name in known:
                    _law(axes, known[name][0], powers[name], colour)
            across = label if row == len(problems) - 1 else ""
            style_lines(axes, "", across, f"{tables.title(problem)}\nrelative error, %" if not column else "")
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.xaxis.set_major_locator(LogLocator(numticks=4))
            axes.xaxis.set_minor_formatter(NullFormatter())
    handles = [
        Line2D([], [], color=colour, marker="o", markersize=2.5, label=name)
        for colour, name in zip(LINES, NAMES.values(), strict=False)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=TEXT - 1, frameon=False)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=120)


def _law(axes: Axes, errors: Errors, power: Power | None, colour: str) -> None:
    for x, values in errors.items():
        axes.plot([x] * len(values), [100 * e for e in values], "o", color=colour, markersize=2.5, alpha=0.6)
    x = np.geomspace(min(errors), max(errors), 60)
    if power is not None:
        seen = visible(errors, power)
        axes.plot(x, 100 * power(x), "-" if seen else ":", color=colour, linewidth=1.2)
        if seen:
            axes.annotate(
                f"{power.exponent:.2f}",
                (x[20], 100 * power(x[20])),
                textcoords="offset points",
                xytext=(3, 3),
                fontsize=TEXT - 2,
                color=colour,
            )
