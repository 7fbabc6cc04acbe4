"""Solving a problem for given inputs, without a network, to a tolerance; every function with its error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float64

from .._numbers import is_real
from .._precision import double_precision
from ..calculus.evaluate import evaluate
from ..calculus.kinks import BLURRED
from ..calculus.model import FixedCoefficients
from ..derivatives import MultiIndex
from ..equations.problem import Problem
from ..equations.symbols import Symbol
from ..functions import Functions
from ..locations import Grid, Location
from .level import Level, distance, distance_of_inputs, solve_level
from .resolution import Progress, Resolution, resolve

SAMPLED = 8
"""How many of the functions the discretisation is chosen on."""

ROUNDS = 3
"""How often it is chosen anew on the functions that it was not fine enough for."""

CHUNK = 1 << 22
"""Values that are computed at a time when solutions are evaluated."""


@dataclass(frozen=True, eq=False)
class Solution:
    """The solutions of a problem for a batch of inputs.

    - `problem`, `inputs`: what was solved, derived functions included.
    - `level`: the discretisation and the coefficients of every function.
    - `errors`: the estimated relative L2 error of each, fields together; infinite where there is no solution.
    - `tolerance`: what was asked for.
    - `resolution`: how the discretisation was chosen.
    - `doubt`: what else the errors account for, in words.
    """

    problem: Problem
    inputs: Mapping[str, Functions]
    level: Level
    errors: Float64[np.ndarray, " functions"]
    tolerance: float
    resolution: Resolution
    doubt: str = ""

    @property
    def reached(self) -> Bool[np.ndarray, " functions"]:
        """Which functions have an error below the tolerance."""
        return self.errors <= self.tolerance

    @property
    def reason(self) -> str:
        """Why some have not; empty if all have."""
        if np.all(self.reached):
            return ""
        told = [why for why in (self.resolution.reason, self.doubt) if why]
        return "; ".join(told) or "some functions are rougher than those that the discretisation was chosen on"

    def distance_to(self, others: Mapping[str, Functions]) -> Float64[np.ndarray, " functions"]:
        """How far the solutions are from those for other inputs, on the same level: relative L2, and infinite where
        there are none."""
        with double_precision():
            inputs = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), dict(self.problem.complete(others)))
            level, total = self.level, len(self.errors)
            other = solve_level(
                level.discretisation,
                level.nodes,
                inputs,
                total,
                level,
                1e-3 * self.tolerance,
                shared=self.resolution.shared,
            )
            apart = distance_of_inputs(other, inputs, level, self.inputs)
            return np.where(other.solved.converged & level.solved.converged, apart, np.inf)

    def doubted(self, more: Float64[np.ndarray, " functions"], why: str) -> "Solution":
        """The same solutions with larger errors, and the reason for these."""
        return replace(self, errors=self.errors + more, doubt=why)

    def __call__(
        self, points: Mapping[str, np.ndarray], field: str, alpha: MultiIndex = ()
    ) -> Float64[np.ndarray, "functions *grid"]:
        """A field, or a derivative of it, on the tensor grid of points along every axis."""
        with double_precision():
            where = Grid.of(self.problem.domain, {n: jnp.asarray(p, float) for n, p in points.items()})
            total = len(self.errors)
            batch = max(1, CHUNK // int(np.prod(where.shape)))
            parts = [
                self._values(slice(i, i + batch), where, Symbol("field", field, alpha)) for i in range(0, total, batch)
            ]
            return np.concatenate(parts)

    def _values(self, rows: slice, where: Location, symbol: Symbol) -> np.ndarray:
        c = jnp.asarray(self.level.solved.coefficients[rows])
        model = FixedCoefficients(self.level.discretisation, c)
        values = evaluate(model, {n: f[rows] for n, f in self.inputs.items()}, where, [symbol])[symbol]
        return np.broadcast_to(np.asarray(values), (len(c), *where.shape))


def solve_functions(
    problem: Problem,
    inputs: Mapping[str, Functions],
    tolerance: float = 1e-4,
    *,
    exact: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Solution:
    """The solutions for a batch of inputs, each with its error. A problem without inputs has one.

    The discretisation is chosen on a few of the functions, all are solved on it and on the coarser one that it was
    compared with, and where the two are too far apart it is chosen anew on the worst ones.

    **Arguments:**

    - `problem`: the equation.
    - `inputs`: the functions, by name.
    - `tolerance`: the relative L2 error that is wanted of each.
    - `exact`: the axes whose conditions hold by construction; by default all.
    - `progress`: called with a line for each discretisation that was tried.
    """
    if not is_real(tolerance) or not 0 < tolerance < 1:
        raise ValueError(f"tolerance is a relative error between 0 and 1, for instance 1e-4; got {tolerance!r:.60}")
    with double_precision():
        return _solve_functions(problem, problem.complete(inputs), tolerance, exact, progress)


def _solve_functions(
    problem: Problem,
    inputs: Mapping[str, Functions],
    tolerance: float,
    exact: Sequence[str] | None,
    progress: Progress | None,
) -> Solution:
    functions = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), inputs)
    total = max((len(f) for f in functions.values()), default=1)
    sample = np.unique(np.linspace(0, total - 1, min(SAMPLED, total)).astype(int))
    resolution, solution = None, None
    for _ in range(ROUNDS):
        chosen = {name: f[sample] for name, f in functions.items()}
        resolution = resolve(problem, chosen, tolerance, exact=exact, progress=progress, each=True, start=resolution)
        solution = _solve_all(problem, functions, total, sample, resolution, tolerance)
        unsolved = np.flatnonzero(~solution.reached)
        if not len(unsolved) or not resolution.reached or set(unsolved) <= set(sample):
            break
        sample = unsolved[np.argsort(-solution.errors[unsolved])][:SAMPLED]
    assert solution is not None
    return solution


def _solve_all(
    problem: Problem,
    inputs: Mapping[str, Functions],
    total: int,
    sample: np.ndarray,
    resolution: Resolution,
    tolerance: float,
) -> Solution:
    if len(sample) == total:
        level, errors = resolution.fine, resolution.fine_errors
    else:
        with double_precision():
            few, many = resolution.coarse, resolution.fine
            coarse = solve_level(
                few.discretisation, few.nodes, inputs, total, None, 1e-3 * tolerance, shared=resolution.shared
            )
            level = solve_level(
                many.discretisation, many.nodes, inputs, total, coarse, 1e-3 * tolerance, shared=resolution.shared
            )
            errors = resolution.factor * distance(coarse, level, inputs) + float(np.max(resolution.quadrature))
            errors = np.where(coarse.solved.converged & level.solved.converged, errors, np.inf)
    if level.discretisation.smoothed:
        errors = errors + BLURRED
    return Solution(problem, inputs, level, errors, tolerance, resolution)
