"""The table and the figure of the paper's recipes at full length, its own figures beside ours."""

from pathlib import Path

import published
import tables
from matplotlib.ticker import LogLocator, NullFormatter
from study import Finished, Outcome

from seponet.drawing.style import LINES, TEXT, new_figure, style_lines
from seponet.problems.published import FIGURES

FIGURE = Path(__file__).parent / "figures" / "paper.png"


def write(found: Finished) -> None:
    """`tables/paper.md` and `figures/paper.png`."""
    outcomes = [outcome for outcome in found.values() if outcome.measured]
    if not outcomes:
        return
    tables.write(
        "paper",
        [
            "# The paper's recipes, run to their end",
            f"SepONet-CP with all steps of the paper's recipe, one seed, on {tables.cores(found)}; mean relative L2 "
            "error ± standard deviation over 100 unseen functions, against a converged reference and against the kind "
            "of scheme that the paper measures with. The last columns are the authors', from an A100. "
            "Navier-Stokes, up to T = 0.1, is reduced to a fifth of the steps (the schedule compressed), 32^2 x 8 "
            "points instead of 256^2 x 32, and 16^2 sensors instead of 128^2; the paper's solver is a converged one.",
            tables.markdown(
                [
                    "problem",
                    "points",
                    "steps",
                    "error",
                    "against the paper's kind",
                    "time",
                    "paper",
                    "its time",
                ],
                [_row(outcome) for outcome in outcomes],
            ),
        ],
    )
    _draw(outcomes)


def _row(outcome: Outcome) -> list[str]:
    problem, points = outcome.cell["problem"], outcome.cell["points"]
    result = outcome.result
    ours = [
        _spread(result[kind]["relative_l2_mean"], result[kind]["relative_l2_std"]) if kind in result else "–"
        for kind in ("converged", "paper")
    ]
    theirs, spread = _theirs(problem, points)
    seconds = published.step_seconds(problem, "SepONet", points, 100)
    return [
        tables.title(problem),
        _grid(problem, points),
        str(result["steps"]),
        *ours,
        tables.seconds(result["training_seconds"]),
        "–" if theirs is None else _spread(theirs, spread),
        "–" if seconds is None else tables.seconds(seconds * result["steps"]),
    ]


def _theirs(problem: str, points: int) -> tuple[float | None, float | None]:
    """The paper's error, and its standard deviation over functions."""
    if problem == "navier_stokes":
        return FIGURES[problem].relative_l2_mean, FIGURES[problem].relative_l2_std
    return published.error(problem, "SepONet", points, 100), published.spread(problem, points)


def _grid(problem: str, points: int) -> str:
    if problem == "navier_stokes":
        return f"{points}^2 x 8"
    return f"{points}^{3 if problem == 'nonlinear_diffusion' else 2}"


def _spread(mean: float, deviation: float | None) -> str:
    return f"{100 * mean:.3g}" + (f" ± {100 * deviation:.2g}%" if deviation is not None else "%")


def _draw(outcomes: list[Outcome]) -> None:
    columns = min(len(outcomes), 3)
    rows = -(-len(outcomes) // columns)
    figure = new_figure(2.3 * rows + 0.6, 3.0 * columns)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[len(outcomes) :]:
        axes.remove()
    for axes, outcome in zip(panels, outcomes, strict=False):
        problem, points = outcome.cell["problem"], outcome.cell["points"]
        steps, errors = zip(*outcome.result["curve"], strict=True)
        axes.plot(
            steps, [100 * e for e in errors], color=LINES[0], linewidth=1.2, label="ours, 20 validation functions"
        )
        last = 100 * outcome.result["converged"]["relative_l2_mean"]
        axes.plot([steps[-1]], [last], "o", color=LINES[0], markersize=4, label="ours at the end, 100 test functions")
        theirs, spread = _theirs(problem, points)
        if theirs is not None:
            axes.axhline(100 * theirs, color="0.4", linestyle="--", linewidth=1, label="the paper at the end")
        if theirs is not None and spread is not None:
            band = 100 * (theirs - spread), 100 * (theirs + spread)
            axes.axhspan(*band, color="0.9", zorder=0, label="its standard deviation over functions")
        style_lines(axes, f"{tables.title(problem)}, {_grid(problem, points)}", "steps", "relative error, %")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=1 if columns == 1 else 2, fontsize=TEXT - 1, frameon=False
    )
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=120)
