"""What the zoo measures of a problem: the error of its reference, and that of a training with the general recipe."""

import os
import time
from typing import Any

import numpy as np

from seponet.evaluation.report import evaluation_report
from seponet.evaluation.testset import draw_functions, load_testset
from seponet.reference import relative_l2
from seponet.runs.config import RunConfig
from seponet.runs.problems import make_problem
from seponet.runs.train import run
from zoo import address

Row = dict[str, Any]


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


def measure_training(name: str, recipe: str, seed: int) -> Row:
    """One training with a general recipe as it is, and its evaluation over 100 unseen functions.

    On a machine that others use, processor seconds say more: on one core, they are the seconds that an idle one would
    have taken.
    """
    problem = make_problem(address(name))
    # Solved before the clock runs; the few validation functions are solved while it does, unless they are cached.
    load_testset(problem, "test")
    began, used = time.perf_counter(), time.process_time()
    outcome = run(RunConfig.make(problem, recipe, seed), quiet=True, calibration=0)
    operator, trained = outcome.operator, outcome.trained
    assert trained is not None
    row: Row = {
        "problem": name,
        "recipe": recipe,
        "seed": seed,
        "steps": trained.steps,
        "validation": trained.error,
        "success": outcome.verdict.success,
        "verdict": outcome.verdict.reason,
        "seconds": time.perf_counter() - began,
        "processor_seconds": time.process_time() - used,
        "cores": len(os.sched_getaffinity(0)),
        "coefficients": operator.model.coefficient_shape(),
    }
    report = evaluation_report(operator)
    row |= {key: report[key] for key in ("relative_l2_mean", "relative_l2_std", "rmse_mean", "reference_error")}
    errors = report["per_function"]["relative_l2"]
    return {**row, "relative_l2_median": float(np.median(errors)), "relative_l2_max": float(np.max(errors))}
