"""The paper's recipes run to their end: errors against both references, and the error over the steps.

    seponet bench paper                          # hours
    seponet bench paper --only diffusion_reaction --budget 30min
    seponet bench paper --list

A cell trains in `runs/paper/<cell>`; one that was stopped goes on from its last checkpoint. Points are those along each
axis of space. For nonlinear diffusion the paper has errors on 8^3 and 16^3 points, too; 32^3 take hours here, 128^3 a
month. Navier-Stokes would take a year, most of it in the branch's convolutions: it is reduced (`REDUCED`, `PART`).
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from study import Cell, Study

SIZES = (
    ("diffusion_reaction", 128),
    ("advection", 128),
    ("burgers", 128),
    ("nonlinear_diffusion", 8),
    ("nonlinear_diffusion", 16),
    ("nonlinear_diffusion", 32),
    ("navier_stokes", 32),
)
REDUCED: Mapping[str, Mapping[str, Any]] = {
    "navier_stokes": {"train.sampling.points": {"t": 8, "x": 32, "y": 32}, "model.sensors": 16},
}
"""What is smaller than the paper's beside the steps: 256^2 x 32 points, and 128^2 sensors."""
PART = {"navier_stokes": 5}
"""The steps are the paper's divided by this, the schedule compressed."""
RUNS = Path(__file__).parent.parent / "runs" / "paper"
SHOWN = 80
"""Validations that are stored of a run, evenly over the logarithm of the step."""


@dataclass(frozen=True)
class Whole(Cell):
    """A problem, and the points along each axis."""

    problem: str
    points: int


def recipe_of(cell: Whole) -> Any:
    from training import compressed

    from seponet.runs.recipes import load_recipe

    whole = load_recipe("paper", cell.problem)
    part = compressed(whole, whole.train.steps // PART.get(cell.problem, 1))
    return part.changed(REDUCED.get(cell.problem, {"train.sampling.points": cell.points}))


def measure(cell: Whole) -> Mapping[str, Any]:
    """The whole training, or the rest of it, and its errors."""
    import seponet
    from seponet.evaluation.report import evaluation_report
    from seponet.runs.folder import RunFolder

    folder = RunFolder(RUNS / cell.id)
    if not folder.operator.exists():
        started = folder.resumable
        seponet.train(
            cell.problem,
            recipe_of(cell),
            out=folder.path,
            resume=started,
            overwrite=not started and folder.path.exists(),
            functions=0,
            calibration=0,
            figures=False,
            quiet=True,
        )
    operator, report = seponet.load(folder.path), folder.read_report()
    result: dict[str, Any] = {name: report[name] for name in ("steps", "training_seconds", "parameters")}
    # The paper's solver for Navier-Stokes is a converged one, on as fine a grid.
    for kind in ("converged",) if cell.problem == "navier_stokes" else ("converged", "paper"):
        found = evaluation_report(operator, kind=kind)
        result[kind] = {name: found[name] for name in ("relative_l2_mean", "relative_l2_std", "rmse_mean")}
    lines = map(json.loads, (folder.path / "metrics.jsonl").read_text().splitlines())
    return {**result, "curve": thinned([(r["step"], r["validation"]) for r in lines if "validation" in r])}


def thinned(curve: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Validations, each once, at most `SHOWN` of them. The log repeats the last one until there is a new one."""
    new = [at for before, at in zip([(0, -1.0), *curve], curve, strict=False) if at[1] != before[1]]
    if len(new) <= SHOWN:
        return new
    steps = np.array([step for step, _ in new])
    wanted = np.geomspace(steps[0], steps[-1], SHOWN)
    return [new[i] for i in sorted({int(np.argmin(np.abs(steps - step))) for step in wanted})]


STUDY = Study(
    "paper",
    [Whole(*size) for size in SIZES],
    measure,
    __file__,
    limit=8 * 3600.0,
    settings=lambda cell: {"recipe": recipe_of(cell).to_dict()},
)


def render() -> None:
    import paper_report

    paper_report.write(STUDY.finished())


if __name__ == "__main__":
    sys.exit(STUDY.main(render=render))
