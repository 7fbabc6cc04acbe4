"""Solving for given inputs from end to end: from a name to labelled solutions with their errors, without a network."""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from .._precision import double_precision
from .._text import did_you_mean, percent
from ..discretise import Solution
from ..equations.folding import refuse_folds
from ..equations.problem import Problem
from ..evaluation.own_reference import solve_and_tell, values_of
from ..functions import Functions
from ..locations import Grid
from ..operator.callables import from_half_the_samples
from ..operator.inputs import read_inputs, unseen
from ..operator.placement import physical_coordinates
from ..operator.request import locate
from ..training.progress import messages_shown, someone_listens
from .problems import make_problem

logger = logging.getLogger(__name__)

SAMPLES = {1: 512, 2: 128}
"""Spacings along each axis at whose ends callables of one and of two axes are sampled; 64 for more."""

SEEN = 0.1
"""The share of the tolerance by which a callable may differ between its samples, before what that does is measured."""

LOST = 0.3
"""The relative difference between its samples beyond which these say nothing about a callable."""


def solve(
    problem: str | type[Problem] | Problem,
    inputs: Any = None,
    tolerance: float = 1e-4,
    *,
    constants: Mapping[str, Any] | None = None,
    exact: str | Sequence[str] | None = None,
    quiet: bool = False,
    **points: Any,
) -> xr.DataArray | xr.Dataset:
    """Solve a problem for given inputs, without a network, to a tolerance: Newton's method on tested residuals.

    ```python
    s = seponet.solve("burgers", u, tolerance=1e-4, t=[0.5, 1.0], x=x)
    s.error  # the estimated relative L2 error of each function
    ```

    The discretisation is chosen for the inputs and the tolerance, and its error is its distance to a finer one. A
    tolerance that is not reached is an answer too: the attribute `reason` says why, and so does a warning.

    **Arguments:**

    - `problem`: a registered name, `path/to/file.py:ClassName`, a `Problem` class or an instance.
    - `inputs`: as for `Operator.predict`: arrays, DataArrays, callables, lists of these, or Functions; a mapping from
        their names if there are several, None if there are none.
    - `tolerance`: the relative L2 error that is wanted of every function, fields together.
    - `constants`: of the problem: `{"nu": 0.02}`.
    - `exact`: the axes whose conditions hold by construction, "all" or "none"; by default as many as do not contradict
        each other for these inputs.
    - `quiet`: show nothing but warnings.
    - `points`: for each axis an array, or a number; by default the points of `problem.grid()`.

    **Returns:** the solution with dimensions (function, axes...), without those that were not given: a DataArray, or a
    Dataset of several fields. Its coordinate `error` is the estimated error of each function (infinite where it is not
    known; solutions that Newton's method did not find are NaN). Its attributes say what was asked for (`tolerance`),
    for how many of the functions it was `reached` (of `functions`), the `reason` if not for all, and how: `exact`
    axes, `trial_functions` and quadrature `nodes` along each axis, `method`, `seconds`.
    """
    began = time.perf_counter()
    with nullcontext() if quiet or someone_listens() else messages_shown():
        equation = make_problem(problem, constants)
        coordinates = _coordinates(equation, points)
        with double_precision():
            samples = _samples(equation)
            functions, count = read_inputs(equation, samples, inputs)
            refuse_folds(equation.chart, equation.complete(functions))
        solution = solve_and_tell(equation, functions, tolerance, exact)
        with double_precision():
            solution = _with_sampling(solution, samples, inputs, functions)
        labelled = _label(solution, coordinates, count)
        labelled.attrs |= _attributes(solution, time.perf_counter() - began)
        _tell(solution)
    return labelled


def _coordinates(problem: Problem, points: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The points along each axis, as arrays; a number stays one, without an axis."""
    for name in points:
        if name not in problem.domain:
            hint = did_you_mean(name, problem.domain)
            raise ValueError(f"there is no axis {name!r}{hint}; the axes are {', '.join(problem.domain)}")
    # The grid of a problem may be costly to make: it is asked for only if an axis needs it.
    usual = problem.grid() if set(points) != set(problem.domain) else {}
    return locate(problem.domain, {name: points[name] if name in points else usual[name] for name in problem.domain})[1]


def _samples(problem: Problem) -> dict[str, dict[str, int]]:
    """The number of samples of each input along each axis: such that every second one is a grid too."""
    return {
        name: {
            axis: SAMPLES.get(len(space.domain), 64) + (not space.domain.axis(axis).periodic) for axis in space.domain
        }
        for name, space in problem.inputs.items()
    }


def _with_sampling(
    solution: Solution, samples: Mapping[str, Mapping[str, int]], given: Any, read: Mapping[str, Functions]
) -> Solution:
    """Add to the errors what comes of sampling callables: how far solutions move if every second sample is left out.

    A jump moves by a quarter of the wider spacing then, and is known to a quarter of it after: so the distance is no
    less than the error, as it is for all that converges with the spacing. Callables that their samples do not show at
    all have no smaller error than their own.
    """
    spaces = solution.problem.inputs
    apart = unseen(spaces, samples, given, read)
    largest = np.max([np.broadcast_to(a, len(solution.errors)) for a in apart.values()], axis=0, initial=0.0)
    if np.max(largest, initial=0.0) <= SEEN * solution.tolerance:
        return solution
    halved = {
        name: from_half_the_samples(spaces[name], samples[name], f) if name in apart else f for name, f in read.items()
    }
    moved = np.where(largest > SEEN * solution.tolerance, solution.distance_to(halved), 0.0)
    moved = np.where(largest > LOST, np.maximum(moved, largest), moved)
    name = max(apart, key=lambda name: float(np.max(apart[name])))
    number = " x ".join(str(n) for n in samples[name].values())
    return solution.doubted(
        moved,
        f"input {name!r} is more than its {number} samples show (between them it differs by "
        f"{percent(float(np.max(apart[name])))} from their interpolant, and without every second one solutions move by "
        f"{percent(float(np.max(moved)))}): smooth its jumps or kinks, or give values on a grid that is fine enough",
    )


def _label(solution: Solution, coordinates: Mapping[str, np.ndarray], count: int | None) -> xr.DataArray | xr.Dataset:
    """The fields with names, coordinates and errors; without the functions' axis if `count` is None."""
    grid = {name: np.atleast_1d(c) for name, c in coordinates.items()}
    function = () if count is None else ("function",)
    dims = (*function, *(name for name, c in coordinates.items() if c.ndim))
    errors = solution.errors if count is not None else solution.errors[0]
    about = {"long_name": "estimated relative L2 error of each function, fields together"}
    coords = {**{n: (n, c) if c.ndim else c for n, c in coordinates.items()}, "error": (function, errors, about)}
    with double_precision():
        where = Grid.of(solution.problem.domain, {n: jnp.asarray(c) for n, c in grid.items()})
        kept = tuple(name for name, c in coordinates.items() if c.ndim)
        coords |= physical_coordinates(solution.problem, solution.inputs, where, kept, many=count is not None)
    shape = (*np.shape(errors), *(c.size for c in coordinates.values() if c.ndim))
    fields: dict[str, xr.DataArray] = {}
    for field in solution.problem.fields:
        values = values_of(solution, field, grid).reshape(shape)
        fields[field] = xr.DataArray(values, coords, dims, field)
    return xr.Dataset(fields) if len(fields) > 1 else next(iter(fields.values()))


def _attributes(solution: Solution, seconds: float) -> dict[str, str | int | float]:
    """What NetCDF can hold: numbers and text."""
    level = solution.level
    return {
        "problem": type(solution.problem).__name__,
        "tolerance": solution.tolerance,
        "functions": len(solution.errors),
        "reached": int(np.sum(solution.reached)),
        "reason": solution.reason,
        "exact": ",".join(level.discretisation.exact),
        "trial_functions": ",".join(f"{name}={rank}" for name, rank in level.discretisation.ranks),
        "nodes": ",".join(f"{name}={n}" for name, n in level.nodes),
        "method": f"Newton on tested residuals, {level.solved.method}",
        "seconds": seconds,
    }


def _tell(solution: Solution) -> None:
    total, reached = len(solution.errors), int(np.sum(solution.reached))
    if reached < total:
        failed = int(np.sum(~solution.level.solved.converged))
        logger.warning(
            "the tolerance of %s is not reached for %d of %d functions (largest estimated error %s): %s%s",
            percent(solution.tolerance),
            total - reached,
            total,
            percent(float(np.max(solution.errors))),
            solution.reason,
            f"; {failed} of them have no solution and are NaN" if failed else "",
        )
