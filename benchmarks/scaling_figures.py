"""The figures of the scaling study, in the layout of the paper's Figures 2 and 3: error, memory, time, by problem."""

from collections.abc import Callable, Sequence
from pathlib import Path

import published
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from scaling_tables import FUNCTIONS, NAMES, POINTS, PROBLEMS, THEIRS, Sizes, of_problem
from study import Finished, Outcome
from tables import cores, title

from seponet.drawing.style import LINES, TEXT, new_figure, style_lines

FIGURES = Path(__file__).parent / "figures"
COLOURS = dict(zip(NAMES, (LINES[0], LINES[2], LINES[1], LINES[3]), strict=True))
MARKERS = dict(zip(NAMES, "osD^", strict=True))
RESOLUTION = 120
"""Dots per inch: files of about 100 kB."""
PAPER = {"SepONet": ("0.55", "o"), "PI-DeepONet": ("0.55", "D")}

ROWS = (
    ("relative error, %\n(ours: part of the steps)", "relative_l2_mean", 100.0, published.error),
    ("memory of a step, GB\n(theirs: of the process)", "bytes", 1e-9, published.memory),
    ("time of a step, s\n", "seconds", 1.0, published.step_seconds),
)


def write(costs: Finished, errors: Finished) -> None:
    """Write `figures/scaling_points.png` and `figures/scaling_functions.png`."""
    FIGURES.mkdir(exist_ok=True)
    _sweep("scaling_points", "points along each axis, 100 functions", POINTS, 0, costs, errors)
    _sweep("scaling_functions", "functions, 128 points along each axis", FUNCTIONS, 1, costs, errors)


def _sweep(name: str, across: str, sizes: Sizes, index: int, costs: Finished, errors: Finished) -> None:
    figure = new_figure(6.6)
    panels = figure.subplots(3, len(PROBLEMS), sharex=True, sharey="row", squeeze=False)
    for column, problem in enumerate(PROBLEMS):
        for row, (label, key, unit, lookup) in enumerate(ROWS):
            axes: Axes = panels[row, column]
            finished = errors if key == "relative_l2_mean" else costs
            _panel(axes, problem, sizes, index, of_problem(finished, problem), key, unit, lookup)
            if not finished:
                label = label.partition("\n")[0]
            style_lines(
                axes, title(problem) if row == 0 else "", across if row == 2 else "", label if column == 0 else ""
            )
            axes.set_xscale("log", base=2 if index == 0 else 10)
            axes.set_yscale("log")
            axes.set_xticks([size[index] for size in sizes], [str(size[index]) for size in sizes])
            axes.set_xticks([], minor=True)
    for axes in panels[2]:
        axes.xaxis.label.set_fontsize(TEXT - 1.5)
    present = [o.cell for o in (*costs.values(), *errors.values())]
    shown = {cell["model"] for cell in present if (cell["points"], cell["functions"]) in sizes}
    figure.legend(
        handles=_legend([model for model in NAMES if model in shown], cores(costs)),
        loc="outside lower center",
        ncols=3,
        fontsize=TEXT - 1,
        frameon=False,
    )
    figure.savefig(FIGURES / f"{name}.png", dpi=RESOLUTION)


def _panel(
    axes: Axes,
    problem: str,
    sizes: Sizes,
    index: int,
    outcomes: Sequence[Outcome],
    key: str,
    unit: float,
    lookup: Callable[[str, str, int, int], float | None],
) -> None:
    for model in THEIRS:
        values = [(size[index], lookup(problem, model, *size)) for size in sizes]
        shown = [(x, unit * y) for x, y in values if y is not None]
        colour, marker = PAPER[model]
        if shown:
            axes.plot(*zip(*shown, strict=True), "--", color=colour, marker=marker, markersize=3, linewidth=1, mfc="w")
    for model in NAMES:
        by_size = {
            (o.cell["points"], o.cell["functions"]): o for o in outcomes if o.cell["model"] == model and key in o.result
        }
        present = [size for size in sizes if size in by_size]
        run = [(size[index], unit * by_size[size].result[key]) for size in present if by_size[size].measured]
        guessed = [(size[index], unit * by_size[size].result[key]) for size in present if not by_size[size].measured]
        style = {"color": COLOURS[model], "marker": MARKERS[model], "markersize": 3.5, "linewidth": 1.3}
        if run:
            axes.plot(*zip(*run, strict=True), "-", **style)
        if guessed:
            joined = [*run[-1:], *guessed]
            axes.plot(*zip(*joined, strict=True), ":", color=COLOURS[model], linewidth=1)
            axes.plot(*zip(*guessed, strict=True), " ", **{**style, "mfc": "w"})


def _legend(models: Sequence[str], cores: str) -> list[Line2D]:
    """Only of models that there are results of."""
    ours = [
        Line2D([], [], color=COLOURS[m], marker=MARKERS[m], markersize=3.5, label=f"{NAMES[m]}: measured, {cores}")
        for m in models
    ]
    guess = Line2D([], [], color="0.2", marker="o", mfc="w", markersize=3.5, ls=":", label="predicted by plan, not run")
    theirs = [
        Line2D([], [], color=PAPER[m][0], marker=PAPER[m][1], mfc="w", markersize=3, ls="--", label=f"{m}: paper, A100")
        for m in THEIRS
    ]
    return [*ours, guess, *theirs]
