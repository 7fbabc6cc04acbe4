"""Reports on a trained operator: how it was trained, and its errors over functions it has not seen."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._machine import git_commit, machine, peak_memory_bytes, versions
from ..nn.fixed import parameter_count
from ..operator.operator import Operator
from ..training.result import TrainingResult
from .break_even import solver_costs
from .errors import measure
from .testset import Kind, draw_functions, find_testset

RESIDUAL_FUNCTIONS = 20
"""Residuals are averaged over no more functions than this: they vary little, and cost more than errors."""


def training_report(trained: TrainingResult) -> dict[str, Any]:
    """How a model was trained, and where."""
    return {
        "steps": trained.steps,
        "length": trained.length,
        "end": trained.end,
        "interrupted": trained.interrupted,
        "training_seconds": trained.seconds,
        "validation_relative_l2": trained.error,
        "parameters": parameter_count(trained.model),
        "peak_memory_bytes": peak_memory_bytes(),
        "versions": versions(),
        "machine": machine(),
        "git_commit": git_commit(),
    }


def evaluation_report(
    operator: Operator,
    functions: int = 100,
    kind: Kind = "converged",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Errors, costs and residuals over unseen functions; residuals alone if there is no reference (see `find_testset`).

    **Arguments:**

    - `operator`: what to evaluate.
    - `functions`: how many test functions.
    - `kind`: the reference, "converged", "paper" or "own"; for a problem without a `reference` the first is the last.
    - `progress`: called with (functions solved, functions) while references are computed.
    """
    problem = operator.problem
    report: dict[str, Any] = {"functions": functions if problem.inputs else 1}
    testset = find_testset(problem, "test", functions, kind=kind, progress=progress)
    if testset is not None:
        errors = measure(operator.model, testset)
        inputs = testset.inputs
        report |= {"reference": testset.kind, "reference_error": testset.own_error, **errors.summary()}
        report |= solver_costs(operator, testset, report["relative_l2_mean"])
        report["per_function"] = {name: getattr(errors, name).tolist() for name in ("relative_l2", "rmse", "maximum")}
    else:
        inputs = draw_functions(problem, "test", functions) if problem.inputs else None
    report["residuals"] = _residuals(operator, inputs)
    return report


def summarise_residuals(residuals: Any) -> dict[str, dict[str, float]]:
    """For each equation and soft condition, the mean and the largest root mean square over functions."""
    values = {str(name): np.atleast_1d(residuals[name].to_numpy()) for name in residuals.data_vars}
    return {name: {"mean": float(np.mean(v)), "max": float(np.max(v))} for name, v in values.items()}


def _residuals(operator: Operator, inputs: Any) -> dict[str, dict[str, float]]:
    subset = None if inputs is None else {name: functions[:RESIDUAL_FUNCTIONS] for name, functions in inputs.items()}
    return summarise_residuals(operator.residual(subset))
