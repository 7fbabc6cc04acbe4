"""One discretisation with its solutions, and the distance between two of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from .._program import compiled_briefly
from ..calculus.collocation import Nodes, make_collocation
from ..calculus.model import FixedCoefficients
from ..calculus.undefined import find_undefined
from ..functions import Functions
from .discretisation import Discretisation, prolong
from .newton import DIRECT, Solved, newton
from .norms import increment_norms, solution_distance


@dataclass(frozen=True)
class Level:
    """One discretisation and its solutions.

    - `discretisation`, `nodes`: the trial functions and the quadrature.
    - `solved`: the coefficients of every function.
    """

    discretisation: Discretisation
    nodes: Nodes
    solved: Solved


def solve_level(
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Functions],
    count: int,
    guess: Level | None,
    tolerance: float,
    *,
    shared: bool = False,
) -> Level:
    """The solutions for given inputs on one level, from those of another one or from the lift. To be called in double
    precision. Where Newton's method fails near a solution of a coarser level, a continuation seldom helps: it is tried
    in small bases only, where it takes seconds."""
    start, led = np.zeros((count, *discretisation.coefficient_shape())), np.ones(count, bool)
    if guess is not None:
        led = ~guess.solved.converged | (discretisation.size <= DIRECT)
        known = guess.solved.converged.reshape(-1, *(1,) * (start.ndim - 1))
        start = prolong(guess.discretisation, discretisation, np.where(known, guess.solved.coefficients, 0.0))
    return Level(
        discretisation, nodes, newton(discretisation, nodes, inputs, start, tolerance=tolerance, shared=shared, led=led)
    )


def why_no_start(level: Level, inputs: Mapping[str, Functions], number: int) -> str:
    """Where an equation has no value for the lift of one function, in words to add; empty if it has one everywhere."""
    one = {name: f[number : number + 1] for name, f in inputs.items()}
    start = jnp.zeros((1, *level.discretisation.coefficient_shape()))
    collocation = make_collocation(level.discretisation, level.nodes)
    undefined = find_undefined(FixedCoefficients(level.discretisation, start), one, collocation, 1)
    return "" if undefined is None else f", since it starts from the lift, where {undefined}"


def distance(coarse: Level, fine: Level, inputs: Mapping[str, Functions]) -> Float64[np.ndarray, " functions"]:
    """The L2 distance of the solutions of two levels, relative to those of the finer one."""
    if not len(fine.solved.coefficients):
        return np.zeros(0)
    if fine.discretisation.smoothed or fine.discretisation.problem.chart is not None:
        # The lifts of the two differ as well, or lengths along the box are none of the domain.
        return distance_of_inputs(coarse, inputs, fine, inputs)
    across = prolong(coarse.discretisation, fine.discretisation, coarse.solved.coefficients)
    return coefficient_norms(across - fine.solved.coefficients) / fine.solved.norms


def distance_of_inputs(
    first: Level, inputs: Mapping[str, Functions], second: Level, others: Mapping[str, Functions]
) -> Float64[np.ndarray, " functions"]:
    """The L2 distance of the solutions of two levels, for inputs of their own, relative to those of the second."""
    ours, theirs = jnp.asarray(first.solved.coefficients), jnp.asarray(second.solved.coefficients)
    apart = solution_distance(
        first.discretisation, dict(inputs), ours, second.discretisation, dict(others), theirs, second.nodes
    )
    return np.asarray(apart) / second.solved.norms


def increment_sizes(
    level: Level, inputs: Mapping[str, Functions], increment: Float64[np.ndarray, "functions fields *_"]
) -> Float64[np.ndarray, " functions"]:
    """The L2 norms of sums of a level's trial functions."""
    if level.discretisation.problem.chart is None:
        return coefficient_norms(increment)
    return np.asarray(_sizes(level.discretisation, dict(inputs), level.nodes, jnp.asarray(increment)))


_sizes = compiled_briefly(increment_norms)


def coefficient_norms(coefficients: Float64[np.ndarray, "functions ..."]) -> Float64[np.ndarray, " functions"]:
    """The L2 norms of functions with given coefficients: the bases are orthonormal. Infinite where iterations have
    diverged beyond all numbers."""
    with np.errstate(over="ignore"):
        return np.sqrt(np.sum(coefficients**2, axis=tuple(range(1, coefficients.ndim))))
