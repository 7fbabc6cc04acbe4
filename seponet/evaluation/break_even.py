"""Break-even: after how many solves a training has paid for itself, against a classical solver at the same error."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._precision import double_precision, in_precision_of, to_double
from ..discretise import resolve
from ..discretise.level import solve_level
from ..functions import Functions
from ..operator.operator import Operator
from ..reference import relative_l2
from .testset import TestSet

FUNCTIONS, REPEATS = 8, 3
"""Functions that a solver is timed on, and how often it is."""

COARSEST = 8
"""How many times coarser than its converged resolution a tailored solver is tried, at most."""


def solver_costs(operator: Operator, testset: TestSet, error: float) -> dict[str, Any]:
    """What a function costs the operator, and a solver that is no more accurate than it has to be.

    The solver is the problem's own `reference`, at the coarsest of its resolutions (halved again and again) whose error
    is below the operator's; or, if the problem has none, the library's own discretisation with that tolerance.

    **Arguments:**

    - `testset`: functions with solutions.
    - `error`: the operator's mean relative error on them.

    **Returns:** seconds of one function among many; nothing if there are fewer than `FUNCTIONS` to time.
    """
    problem = operator.problem
    points: dict[str, Any] = dict(testset.points)
    if len(testset) < FUNCTIONS:
        return {}
    with in_precision_of(operator.model):
        evaluator = operator.compile(**points)
        inputs, count = operator.read_inputs(testset.inputs)
        predicting = _fastest(lambda: evaluator.compute(inputs, count or 1)) / (count or 1)
    few = {name: f[:FUNCTIONS] for name, f in testset.inputs.items()}
    timed = _tailored(testset, few, error) if problem.has_reference else _own(operator, few, error)
    return {"prediction_seconds": predicting, **timed}


def break_even(report: Mapping[str, Any]) -> dict[str, Any]:
    """The number of solves after which a training has paid for itself, from what a report says of its costs; nothing
    if it says too little. None solves if predictions are no faster than the solver."""
    names = ("training_seconds", "prediction_seconds", "solver_seconds")
    if any(report.get(name) is None for name in names):
        return {}
    training, predicting, solving = (float(report[name]) for name in names)
    gain = solving - predicting
    return {"break_even_solves": math.ceil(training / gain - 1e-9) if gain > 0 else None}


def describe_break_even(report: Mapping[str, Any]) -> str:
    """The same in a sentence; empty if it is not known."""
    if "break_even_solves" not in report:
        return ""
    solver = "the tailored solver" if report["solver"] == "reference" else "the library's own solver"
    costs = (
        f"{1e3 * report['prediction_seconds']:.2g} ms for a prediction, {1e3 * report['solver_seconds']:.2g} ms for "
        f"{solver} at an error of {100 * report['solver_error']:.2g}%"
    )
    solves = report["break_even_solves"]
    if solves is None:
        return f"never: {costs}"
    return f"{solves} solves: {costs}"


def _tailored(testset: TestSet, inputs: Mapping[str, Functions], error: float) -> dict[str, Any]:
    """A problem's `reference` at the coarsest resolution that is accurate enough."""
    problem, points = testset.problem, testset.points
    finest = problem.reference_resolution
    best: dict[str, Any] = {}
    for halved in range(int(math.log2(COARSEST)) + 1):
        resolution = None if finest is None else finest // 2**halved
        if resolution is not None and resolution < 8:
            break
        began = time.perf_counter()
        try:
            solution = _solved(problem, inputs, points, resolution)
        except (ValueError, ArithmeticError):  # too coarse for this solver
            break
        first = time.perf_counter() - began
        if halved or finest is None:
            apart = [relative_l2(solution[f], testset.solution(f)[: len(solution[f])]) for f in problem.fields]
            reached = float(np.mean(apart)) if finest is not None else 0.0
        else:
            reached = testset.own_error or 0.0
        if best and not reached <= error:
            break
        # What takes long is not dominated by compilation.
        seconds = first if first > 5 else _fastest(lambda at=resolution: _solved(problem, inputs, points, at))
        count = len(next(iter(solution.values())))
        best = {"solver": "reference", "solver_error": reached, "solver_seconds": seconds / count}
        if finest is None:
            break
    return best


def _solved(problem: Any, inputs: Mapping[str, Functions], points: Any, resolution: int | None) -> dict[str, Any]:
    if resolution is None:
        return problem.reference_solution(inputs, points)
    return problem.reference_solution(inputs, points, resolution)


def _own(operator: Operator, inputs: Mapping[str, Functions], error: float) -> dict[str, Any]:
    """The library's own discretisation at the tolerance, without the search for it."""
    problem, exact = operator.problem, operator.model.exact
    tolerance = float(np.clip(error, 1e-6, 0.5))
    try:
        chosen = resolve(problem, inputs, tolerance, exact=exact)
    except ValueError:  # nothing to solve in, for instance as many soft conditions as functions
        return {}
    if not chosen.reached:
        return {}
    with double_precision():
        functions, level = to_double(dict(problem.complete(inputs))), chosen.coarse

        def solve() -> None:
            solve_level(
                level.discretisation, level.nodes, functions, FUNCTIONS, None, 0.1 * tolerance, shared=chosen.shared
            )

        seconds = _fastest(solve) / FUNCTIONS
    return {"solver": "own", "solver_error": chosen.mean, "solver_seconds": seconds}


def _fastest(action: Callable[[], Any]) -> float:
    """The shortest of a few times, after one that compiles."""
    action()
    times: list[float] = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)
