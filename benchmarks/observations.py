"""The paper's observations at reduced scale, with its model: learned trunks, CP, soft conditions.

    python benchmarks/observations.py batch     # more points, more functions: lower error (diffusion-reaction)
    python benchmarks/observations.py rank      # heat: rank r against the first r terms of the exact series
    python benchmarks/observations.py draw      # the figures again, from the stored results

`batch` is the `paper` recipe for a fixed, small number of steps. `rank` takes the paper's networks and loss weights,
and SOAP for the optimizer, so that a few thousand steps show what the rank allows rather than how long one has waited.
"""

import argparse
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from results import RESULTS, machine, store

from seponet import Operator
from seponet.drawing.style import LINES, TICK, new_figure, save_figure, style_lines
from seponet.evaluation.errors import compare, measure
from seponet.evaluation.testset import load_testset
from seponet.functions import as_callable
from seponet.problems import PROBLEMS
from seponet.reference import solve_heat
from seponet.runs.recipes import load_recipe
from seponet.training.loop import train_model
from seponet.training.recipe import Recipe

POINTS, FUNCTIONS = (8, 16, 32), (5, 20, 50, 100)
RANKS, SHOWN = (1, 2, 3, 5, 10, 20, 50), (1, 2, 5, 10, 50)
BATCH_STEPS, RANK_STEPS = 2000, 3000


def error_of(name: str, recipe: Recipe, seed: int = 0) -> tuple[Operator, dict[str, Any]]:
    """Train, and the mean error over 100 unseen functions; one seed."""
    problem = PROBLEMS[name]()
    trained = train_model(problem, recipe, seed=seed, quiet=True)
    errors = measure(trained.model, load_testset(problem, "test")).relative_l2
    found = {"seed": seed, "seconds": trained.seconds, "relative_l2_mean": float(errors.mean())}
    return Operator(trained.model), {**found, "relative_l2_std": float(errors.std())}


def study_batch() -> None:
    rows: list[dict[str, Any]] = []
    sizes = [(points, 100) for points in POINTS] + [(32, functions) for functions in FUNCTIONS[:-1]]
    for points, functions in sizes:
        changes = {"train.steps": BATCH_STEPS, "train.sampling.points": points, "train.functions": functions}
        recipe = load_recipe("paper", "diffusion_reaction").changed(changes)
        rows.append({"points": points, "functions": functions, **error_of("diffusion_reaction", recipe)[1]})
        print(rows[-1], flush=True)
        content = {"problem": "diffusion_reaction", "steps": BATCH_STEPS, "rows": rows}
        store("observations_batch", {"machine": machine(), **content})


def study_rank(ranks: Sequence[int]) -> None:
    """Rows of ranks that were studied before are kept."""
    problem = PROBLEMS["heat"]()
    testset = load_testset(problem, "test")
    exact = {"s": testset.solution("s")}
    path = RESULTS / "observations_rank.json"
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    rows: list[dict[str, Any]] = [row for row in before if row["rank"] not in ranks]
    for rank in ranks:
        changes = {"model.rank": rank, "train.steps": RANK_STEPS, "train.sampling.points": 32}
        changes |= {"train.loss.normalise": True, "train.sampling.resample": 1}
        changes["train.optimizer"] = {"name": "soap", "rate": 3e-3, "schedule": "cosine", "schedule_options": {}}
        recipe = load_recipe("paper", "heat").changed(changes)
        operator, row = error_of("heat", recipe)
        points = testset.points
        series = solve_heat(as_callable(testset.inputs["u"]), points["t"], points["x"], rank=rank)
        truncated = float(np.mean(compare({"s": series}, exact).relative_l2))
        row |= {"rank": rank, "relative_l2_mean_series": truncated}
        print(row, flush=True)
        if rank in SHOWN:
            factors = operator.basis(65)["x"]
            row["x"] = [round(float(v), 5) for v in factors["x"]]
            row["factors"] = np.round(factors.to_numpy().reshape(rank, -1), 4).tolist()
        rows.append(row)
        rows.sort(key=lambda row: row["rank"])
        store("observations_rank", {"machine": machine(), "problem": "heat", "steps": RANK_STEPS, "rows": rows})


def draw_batch(rows: list[dict[str, Any]]) -> None:
    figure = new_figure(2.8, 7.0)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, variable, fixed, value in zip(
        panels, ("points", "functions"), ("functions", "points"), (100, 32), strict=True
    ):
        sweep = [r for r in rows if r[fixed] == value]
        sizes = sorted({r[variable] for r in sweep})
        errors = [100 * next(r["relative_l2_mean"] for r in sweep if r[variable] == n) for n in sizes]
        axes.plot(sizes, errors, "o-", color=LINES[0], linewidth=1.4, markersize=3)
        note = "100 functions" if variable == "points" else "32 points along each axis"
        style_lines(axes, note, f"{variable} {'along each axis' if variable == 'points' else 'in a batch'}", "")
        axes.set_xscale("log", base=2 if variable == "points" else 10)
        axes.set_xticks(sizes, [str(n) for n in sizes])
        axes.minorticks_off()
    panels[0].set_ylabel("mean relative $L^2$ error (%)", fontsize=9)
    panels[0].set_yscale("log")
    panels[0].set_yticks([5, 10, 20, 50, 100])
    panels[0].yaxis.set_major_formatter("{x:g}")
    panels[0].minorticks_off()
    save_figure(figure, RESULTS.parent / "figures" / "observations_batch.png")


def draw_rank(rows: list[dict[str, Any]]) -> None:
    figure = new_figure(4.2, 7.5)
    top, bottom = figure.subfigures(2, 1, height_ratios=(3, 2))
    axes = top.subplots()
    ranks = [r["rank"] for r in rows]
    axes.plot(
        ranks, [100 * r["relative_l2_mean_series"] for r in rows], "s--", color="0.5", markersize=4, label="series"
    )
    axes.plot(ranks, [100 * r["relative_l2_mean"] for r in rows], "o-", color=LINES[0], markersize=4, label="learned")
    style_lines(
        axes,
        f"heat: the first $r$ terms of the series, and $r$ terms learned in {RANK_STEPS} steps",
        "rank $r$",
        "mean error (%)",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(ranks, [str(r) for r in ranks])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend(fontsize=TICK, frameon=False)
    shown = [r for r in rows if "factors" in r]
    for panel, row in zip(bottom.subplots(1, len(shown), sharey=True), shown, strict=True):
        for i, factor in enumerate(np.array(row["factors"])[:10]):
            panel.plot(row["x"], factor / np.max(np.abs(factor)), linewidth=0.9, color=LINES[i % len(LINES)])
        note = "" if row["rank"] <= 10 else ", ten of them"
        style_lines(panel, f"$r = {row['rank']}${note}", "$x$", "factors" if row is shown[0] else "")
    save_figure(figure, RESULTS.parent / "figures" / "observations_rank.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("batch", "rank", "draw"))
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    arguments = parser.parse_args()
    what = arguments.what
    if what == "batch":
        study_batch()
    if what == "rank":
        study_rank(arguments.ranks)
    for name, draw in (("batch", draw_batch), ("rank", draw_rank)):
        path = RESULTS / f"observations_{name}.json"
        if what in (name, "draw") and path.exists():
            draw(json.loads(path.read_text())["rows"])


if __name__ == "__main__":
    main()
