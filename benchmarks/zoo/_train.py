"""What the zoo measures of a problem: the error of its reference, and that of a training with the general recipe.

Trainings are a study: each runs in a process of its own, so that its memory ends with it, and a finished one is not run
again unless it is asked for. Its operator stays in `runs/zoo/<recipe>/<problem>`.
"""

import os
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from study import Cell, Study

from seponet.evaluation.report import evaluation_report
from seponet.evaluation.testset import draw_functions, load_testset
from seponet.reference import relative_l2
from seponet.runs.config import RunConfig
from seponet.runs.problems import make_problem
from seponet.runs.train import run
from zoo import PROBLEMS, address

Row = dict[str, Any]

RUNS = Path(__file__).parents[2] / "runs" / "zoo"
"""Where trained operators stay."""

LIMIT = 3600.0
"""Seconds after which a training has failed."""


@dataclass(frozen=True)
class Training(Cell):
    """A training of one problem with a general recipe."""

    problem: str
    recipe: str
    seed: int


def trainings(recipe: str, seeds: Sequence[int], shared: bool = False) -> Study[Training]:
    """The trainings of the whole zoo with a recipe.

    **Arguments:**

    - `shared`: the machine has other work: budgets count processor seconds, which on one core are the seconds that an
        idle one would have taken.
    """
    cells = [Training(name, recipe, seed) for name in PROBLEMS for seed in seeds]
    flags = ("--train", "--recipe", recipe, "--seeds", *map(str, seeds), *(["--shared"] if shared else []))
    measure = partial(measure_training, shared=shared)
    return Study("zoo", cells, measure, str(Path(__file__).parent), flags=flags, limit=LIMIT)


def measure_reference(name: str, functions: int) -> Row:
    """The time of a reference for some unseen functions, and its largest error over functions and fields.

    The error is the difference to twice the resolution, for at most eight functions. A reference without a resolution
    is exact, or says in its file how far it is from that.
    """
    problem = make_problem(address(name))
    inputs, points = draw_functions(problem, "test", functions), problem.grid()
    began = time.perf_counter()
    solution = problem.reference_solution(inputs, points)
    row: Row = {"problem": name, "functions": functions, "seconds": time.perf_counter() - began}
    resolution = problem.reference_resolution
    if resolution is None:
        return {**row, "resolution": None, "own_error": None}
    few = {name: drawn[:8] for name, drawn in inputs.items()}
    finer = problem.reference_solution(few, points, 2 * resolution)
    errors = {field: relative_l2(solution[field][:8], finer[field]) for field in problem.fields}
    return {**row, "resolution": resolution, "own_error": {field: float(e.max()) for field, e in errors.items()}}


def measure_training(cell: Training, shared: bool = False) -> Row:
    """One training with a general recipe as it is, and its evaluation over 100 unseen functions."""
    if shared:
        time.perf_counter = time.process_time
    problem = make_problem(address(cell.problem))
    # Solved before the clock runs; the few validation functions are solved while it does, unless they are cached.
    load_testset(problem, "test")
    began, used = time.monotonic(), time.process_time()
    folder = RUNS / cell.recipe / (cell.problem if cell.seed == 0 else f"{cell.problem}_{cell.seed}")
    outcome = run(
        RunConfig.make(address(cell.problem), cell.recipe, cell.seed),
        out=folder,
        overwrite=folder.exists(),
        functions=0,
        calibration=0,
        figures=False,
        quiet=True,
    )
    operator, trained = outcome.operator, outcome.trained
    assert trained is not None
    row: Row = {
        "problem": cell.problem,
        "recipe": cell.recipe,
        "seed": cell.seed,
        "steps": trained.steps,
        "validation": trained.error,
        "success": outcome.verdict.success,
        "verdict": outcome.verdict.reason,
        "seconds": time.monotonic() - began,
        "shared": shared,
        "processor_seconds": time.process_time() - used,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "cores": len(os.sched_getaffinity(0)),
        "coefficients": operator.model.coefficient_shape(),
    }
    report = evaluation_report(operator)
    row |= {key: report[key] for key in ("relative_l2_mean", "relative_l2_std", "rmse_mean", "reference_error")}
    errors = report["per_function"]["relative_l2"]
    return {**row, "relative_l2_median": float(np.median(errors)), "relative_l2_max": float(np.max(errors))}
