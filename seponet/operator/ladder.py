r"""Correction to a tolerance: Newton's method in the basis of an operator, then in larger ones, level by level.

An answer is accepted on the difference of two levels only. A residual that is small in one basis says nothing about
what lies outside of it: a front that no function of the basis resolves leaves hardly a trace in it.

If differences fall by a factor q from level to level, all that are still to come sum to q / (1 - q) of the last one.
That is what the finer level is announced with. So that q is known from the first comparison on, the ladder begins below
the operator's own basis; where that has no solution, the first difference counts twice.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int

from ..calculus.collocation import Nodes, make_collocation
from ..calculus.evaluate import evaluate
from ..calculus.model import FixedCoefficients, Model
from ..discretise.bandwidth import Bandwidth, resolving_nodes
from ..discretise.discretisation import Discretisation, prolong
from ..discretise.level import Level, distance
from ..discretise.newton import LARGEST_DIRECT, Solved, newton
from ..discretise.preconditioner import is_solvable
from ..discretise.test_functions import is_square, make_tests
from ..equations.symbols import Symbol
from ..functions import Functions

GROWTH = 1.5
"""How many times as many functions a level has along every axis as the one before it."""

LEVELS, LARGEST, MOST_ALONG = 5, 30_000, 192
"""Levels, coefficients of one function, and functions along one axis, at most."""

UNKNOWN, SLOWEST = 2.0, 0.9
"""What a difference is multiplied by if no earlier one is known; and the rate above which differences say nothing."""

MANY = 4
"""From so many functions on, the averaged Jacobian preconditions iterations; fewer are factorised one by one."""

NEWTON = 1e-3
"""The part of the tolerance at which Newton's method ends."""


@dataclass(frozen=True)
class Ladder:
    """Nested discretisations.

    **Arguments:**

    - `base`: the first of them.
    - `needs`: how many functions the inputs need along each axis, for the quadrature.
    - `largest`: the most coefficients of one function.
    """

    base: Discretisation
    needs: Sequence[Bandwidth] = ()
    largest: int = LARGEST

    def discretisation(self, level: int) -> Discretisation | None:
        """The basis of a level: -1 is smaller than the first one. None if there is none, or if it would be too
        large."""
        scaled = resized(self.base, GROWTH**level)
        if level == 0:
            return self.base
        if level > 0 and scaled.ranks == resized(self.base, GROWTH ** (level - 1)).ranks:
            return None
        return scaled if scaled.size <= self.largest and is_possible(scaled) else None

    def nodes(self, discretisation: Discretisation) -> Nodes:
        return resolving_nodes(discretisation.ranks, self.needs)


def resized(base: Discretisation, factor: float) -> Discretisation:
    """The same problem with some times as many functions along every axis."""
    ranks = {name: min(max(math.ceil(factor * rank), 2), max(rank, MOST_ALONG)) for name, rank in base.ranks}
    return Discretisation.of(base.problem, base.exact, ranks, base.smoothed)


def is_possible(discretisation: Discretisation) -> bool:
    """Whether there is a solver for a discretisation."""
    try:
        square = is_square(discretisation, make_tests(discretisation))
    except ValueError:  # as many soft conditions along an axis as functions: nothing is left to test the equation with
        return False
    return is_solvable(discretisation) and (square or discretisation.size <= LARGEST_DIRECT)


@dataclass(frozen=True)
class Climbed:
    """Corrected functions.

    - `parts`: the rows of some functions, and the level that they have reached; every function is in one of them.
    - `errors`: the announced relative error of each; infinite if it is not known.
    - `steps`: how many levels each has climbed beyond the first.
    - `moved`: how far the start was from the result, relative to it: the error of the start. Infinite if not known.
    - `seconds`: what each has taken, an equal part of what was computed together.
    """

    parts: Sequence[tuple[Int[np.ndarray, " rows"], Level]]
    errors: Float64[np.ndarray, " functions"]
    steps: Int[np.ndarray, " functions"]
    moved: Float64[np.ndarray, " functions"]
    seconds: Float64[np.ndarray, " functions"]


def climb(
    ladder: Ladder, inputs: Mapping[str, Functions], start: Float64[np.ndarray, "functions fields *_"], rtol: float
) -> Climbed:
    """Each function corrected until its announced error is below a tolerance, or as far as the ladder goes. To be
    called in double precision.

    **Arguments:**

    - `inputs`: functions by name, derived ones included, in float64.
    - `start`: coefficients in the basis of the ladder.
    """
    total = len(start)
    first = _given(ladder, start)
    errors, differences, moved = (np.full(total, np.inf) for _ in range(3))
    steps, seconds = np.zeros(total, int), np.zeros(total)
    parts: list[tuple[np.ndarray, Level]] = []
    active, below, best = np.arange(total), None, first
    for level in range(-1, LEVELS):
        discretisation = ladder.discretisation(level)
        if level < 0 and discretisation is None:
            continue
        if discretisation is None or not len(active):
            break
        began = time.perf_counter()
        # The smaller basis is there for the rate alone: what its solution lacks, the start may have.
        guess = prolong(best.discretisation, discretisation, best.solved.coefficients)
        here = _solve(ladder, discretisation, {name: f[padded(active)] for name, f in inputs.items()}, guess, rtol)
        own = {name: f[active] for name, f in inputs.items()}
        reached = np.zeros(len(active), bool)
        if below is not None:
            apart = np.where(here.solved.converged & below.solved.converged, distance(below, here, own), np.inf)
            announced = _factors(apart, differences[active]) * apart
            differences[active] = apart
            if level > 0:
                errors[active], steps[active], reached = announced, level, announced <= rtol
                parts.append((active[reached], part(here, reached)))
                moved[active[reached]] = distance(
                    part(first, active[reached]), part(here, reached), {n: f[reached] for n, f in own.items()}
                )
        seconds[active] += (time.perf_counter() - began) / len(active)
        below, active = part(here, ~reached), active[~reached]
        if level < 0:
            continue
        # A basis that is too coarse may have no solution where the next one has, which starts from the same guess.
        known = here.solved.converged.reshape(-1, *(1,) * (guess.ndim - 1))
        kept = replace(here.solved, coefficients=np.where(known, here.solved.coefficients, guess))
        best = part(replace(here, solved=kept), ~reached)
    if len(active):
        own = {name: f[active] for name, f in inputs.items()}
        parts.append((active, best))
        solved = best.solved.converged
        moved[active] = np.where(solved, distance(part(first, active), best, own), np.inf)
        errors[active] = np.where(solved, errors[active], np.inf)
    return Climbed([(rows, of_rows) for rows, of_rows in parts if len(rows)], errors, steps, moved, seconds)


def _solve(
    ladder: Ladder, discretisation: Discretisation, inputs: Mapping[str, Functions], guess: np.ndarray, rtol: float
) -> Level:
    """One level, for inputs that are filled up to a power of two."""
    nodes, count = ladder.nodes(discretisation), len(guess)
    solved = newton(
        discretisation,
        nodes,
        inputs,
        guess[padded(np.arange(count))],
        tolerance=max(NEWTON * rtol, 1e-11),
        shared=is_square(discretisation, make_tests(discretisation)) and count >= MANY,
    )
    return Level(discretisation, nodes, rows_of(solved, np.arange(count)))


def project(
    model: Model,
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Functions],
    coefficients: Float[Array, "functions *_"],
) -> Float64[np.ndarray, "functions fields *_"]:
    """The coefficients of the functions of a discretisation that are nearest to the solutions of any model, in L2."""
    return np.asarray(_project(model, discretisation, nodes, dict(inputs), coefficients), np.float64)


@eqx.filter_jit
def _project(
    model: Model, discretisation: Discretisation, nodes: Nodes, inputs: Mapping[str, Functions], coefficients: Array
) -> Float[Array, "functions fields *_"]:
    collocation = make_collocation(discretisation, nodes)
    symbols = [Symbol("field", field) for field in model.problem.fields]
    count = coefficients.shape[0]
    zero = jnp.zeros((count, *discretisation.coefficient_shape()))
    ours = evaluate(FixedCoefficients(model, coefficients), inputs, collocation.where, symbols)
    lifts = evaluate(FixedCoefficients(discretisation, zero), inputs, collocation.where, symbols)
    fields = []
    for number, symbol in enumerate(symbols):
        values = jnp.broadcast_to(ours[symbol] - lifts[symbol], (count, *collocation.where.shape))
        for bases, weights, points in zip(
            discretisation.bases, collocation.weights, collocation.where.points, strict=True
        ):
            basis = bases[number]
            assert weights is not None
            table = basis(points, 0)[0] * weights[:, None] * basis.axis.length
            values = jnp.tensordot(values, table, ((1,), (0,)), precision="highest")
        fields.append(values)
    return jnp.stack(fields, axis=1)


def _factors(
    difference: Float64[np.ndarray, " functions"], earlier: Float64[np.ndarray, " functions"]
) -> Float64[np.ndarray, " functions"]:
    """The error of the finer of two levels, relative to their difference, at most."""
    known = np.isfinite(earlier) & np.isfinite(difference)
    rate = np.maximum(np.where(known, difference, 1.0) / np.where(known, np.maximum(earlier, 1e-300), 1.0), 0.5)
    factors = np.where(rate < SLOWEST, rate / (1 - np.minimum(rate, SLOWEST)), np.inf)
    return np.where(known, factors, UNKNOWN)


def _given(ladder: Ladder, start: np.ndarray) -> Level:
    """Coefficients that were not solved for, as a level."""
    total = len(start)
    solved = Solved(start, np.ones(total, bool), np.zeros(total), np.ones(total), "none")
    return Level(ladder.base, ladder.nodes(ladder.base), solved)


def part(level: Level, rows: np.ndarray) -> Level:
    """A level with some of its functions."""
    return replace(level, solved=rows_of(level.solved, rows))


def rows_of(solved: Solved, rows: np.ndarray) -> Solved:
    """The solutions of some functions."""
    names = ("coefficients", "converged", "change", "norms")
    return Solved(*(getattr(solved, name)[rows] for name in names), method=solved.method)


def padded(rows: np.ndarray) -> np.ndarray:
    """The last of some rows repeated up to a power of two, so that one compiled program serves many numbers."""
    count = 1 << max(len(rows) - 1, 0).bit_length()
    return rows[np.minimum(np.arange(count), len(rows) - 1)]
