"""Solutions by the library's own discretisation, and what a user is told about them while they are computed."""

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from .._text import did_you_mean, percent
from ..calculus.compatibility import Disagreement, choose_exact
from ..discretise import Solution, solve_functions
from ..equations.problem import Problem
from ..functions import Functions

logger = logging.getLogger(__name__)

TOLERANCES = {"test": 1e-4, "validation": 1e-3}
"""The relative error that is asked for in each split: a tenth of what operators reach, and less where it is only
watched."""

LARGEST_ERROR = 0.02
"""The mean relative error up to which solutions are a reference for anything."""


class NoReference(ValueError):
    """Nothing to measure errors against: the own discretisation does not solve the functions of a test set."""


def solve_and_tell(
    problem: Problem,
    inputs: Mapping[str, Functions],
    tolerance: float,
    exact: str | Sequence[str] | None = None,
) -> Solution:
    """`solve_functions`, with a message for each discretisation that was tried and for conditions that are soft.

    **Arguments:**

    - `problem`, `inputs`: the equation, and a batch of functions for each of its inputs.
    - `tolerance`: the relative L2 error that is wanted of each.
    - `exact`: the axes whose conditions hold by construction, "all" or "none"; by default as many as do not contradict
        each other. Axes that do are refused.
    """
    axes = _exact_axes(problem, inputs, exact)
    return solve_functions(problem, inputs, tolerance, exact=axes, progress=lambda line: logger.info("%s", line))


def own_solutions(
    problem: Problem, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray], tolerance: float
) -> tuple[dict[str, Float[np.ndarray, "functions *grid"]], dict[str, float | int | str]]:
    """Each field on a grid, NaN where there is no solution; and the attributes of a test set that tell the error."""
    solution = solve_and_tell(problem, inputs, tolerance)
    solved = np.isfinite(solution.errors)
    attributes = {
        "own_error_mean": float(np.mean(solution.errors)),
        "own_error_max": float(np.max(solution.errors)),
        "own_error_functions": len(solution.errors),
        "unsolved": int(np.sum(~solved)),
        "reason": solution.reason,
    }
    return {field: values_of(solution, field, points) for field in problem.fields}, attributes


def check_usable(problem: Problem, attributes: Mapping[str, float | int | str]) -> None:
    """Refuse solutions that are too inaccurate to measure anything against, with the reason."""
    mean, unsolved = float(attributes["own_error_mean"]), int(attributes["unsolved"])
    if unsolved or mean > LARGEST_ERROR:
        what = (
            f"leaves {unsolved} of {attributes['own_error_functions']} functions unsolved"
            if unsolved
            else f"has a mean error of {percent(mean)}"
        )
        raise NoReference(
            f"{type(problem).__name__} has no method `reference`, and the library's own discretisation {what}: "
            f"{attributes['reason']}; give it a method `reference` to measure errors"
        )


def values_of(solution: Solution, field: str, points: Mapping[str, np.ndarray]) -> Float[np.ndarray, "functions *grid"]:
    """A field on a tensor grid; NaN for functions for which Newton's method failed."""
    values = solution(points, field)
    failed = ~solution.level.solved.converged
    return np.where(failed.reshape(-1, *(1,) * (values.ndim - 1)), np.nan, values)


def _exact_axes(
    problem: Problem, inputs: Mapping[str, Functions], named: str | Sequence[str] | None
) -> tuple[str, ...]:
    if named == "none":
        return ()
    axes, contradictions = choose_exact(problem, inputs)
    if named is None:
        if contradictions:
            logger.info(
                "the conditions on %s are imposed softly, because exact ones would be wrong along their whole faces: "
                "%s; to choose otherwise, name the axes that shall be exact, or change the data so that they agree",
                _others(axes, contradictions),
                _summary(contradictions),
            )
        return tuple(name for name in problem.domain if name in axes or not _touched(name, contradictions))
    listed = problem.domain.names if named == "all" else (named,) if isinstance(named, str) else tuple(named)
    for name in listed:
        if name not in problem.domain:
            hint = did_you_mean(name, problem.domain)
            raise ValueError(
                f'exact is "all", "none" or some of the axes {", ".join(problem.domain)}; got {name!r}{hint}'
            )
    among = [d for d in contradictions if set(d.axes) <= set(listed)]
    if among:
        raise ValueError(
            f"exact names axes whose conditions contradict each other: {_summary(among)}; leave out "
            f"{_others(axes, among)}, or leave exact to the library, or change the data so that they agree"
        )
    return listed


def _touched(name: str, contradictions: Sequence[Disagreement]) -> bool:
    return any(name in d.axes for d in contradictions)


def _others(axes: Sequence[str], contradictions: Sequence[Disagreement]) -> str:
    """The axes that contradictions keep from being exact, in words."""
    return " and ".join(dict.fromkeys(name for d in contradictions for name in d.axes if name not in axes))


def _summary(contradictions: Sequence[Disagreement]) -> str:
    more = len(contradictions) - 1
    return f"{contradictions[0]}" + (f" ({more} more like this)" if more else "")
