r"""Newton's method on tested residuals (Petrov-Galerkin), started from a network's answer.

A model whose factors are classical functions, with a coefficient for every product of them, has the trial functions of
a `Discretisation`, so its coefficients can be improved as those of a solution are: $\langle \psi_k, R(c) \rangle = 0$
for every test function instead of the least squares of R. In one and the same basis that is more accurate, by orders of
magnitude where the solution is not smooth (corners, elasticity).
"""

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64

from ..calculus.collocation import Nodes
from ..discretise.discretisation import Discretisation
from ..discretise.newton import DIRECT, ITERATIONS, newton, newton_change
from ..discretise.preconditioner import is_solvable
from ..discretise.test_functions import make_tests
from ..functions import Functions
from ..nn.model import OperatorNetwork


def discretisation_of(model: OperatorNetwork) -> Discretisation | None:
    """The discretisation with the trial functions of a model; None if there is none."""
    discretisation = model.discretisation
    if discretisation is None or not is_solvable(discretisation):
        return None
    try:
        make_tests(discretisation)
    except ValueError:  # as many soft conditions along an axis as functions: nothing is left to test the equation with
        return None
    return discretisation


def tested_newton(
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Functions],
    start: Float64[np.ndarray, "functions fields *_"],
    steps: int,
    memory: int,
) -> Float64[np.ndarray, "functions fields *_"]:
    """The coefficients after some Newton steps. To be called in double precision.

    **Arguments:**

    - `discretisation`, `nodes`: the trial functions, and the quadrature.
    - `inputs`: functions by name, derived ones included.
    - `start`: the first guess.
    - `steps`: how many steps; each is shortened where a whole one would lead away.
    - `memory`: the working memory in bytes, approximately: it bounds the functions that are solved at a time.
    """
    parts: list[np.ndarray] = []
    for rows in _batches(discretisation, nodes, len(start), memory):
        functions, c = {name: f[rows] for name, f in inputs.items()}, start[rows]
        for _ in range(steps):
            # Whatever the first step changes is within an infinite tolerance: one step at a time, and no continuation.
            c = newton(discretisation, nodes, functions, c, tolerance=math.inf).coefficients
        parts.append(c)
    return np.concatenate(parts)


def tested_errors(
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Functions],
    candidates: tuple[np.ndarray, ...],
    memory: int,
) -> tuple[Float64[np.ndarray, " functions"], ...]:
    """The relative errors of coefficients as solutions of the tested equations, to first order: what a Newton step
    would change. To be called in double precision.

    **Arguments:**

    - `candidates`: coefficients of all functions, several times; for each of them, errors are returned.
    - the others: as for `tested_newton`.
    """
    errors: list[list[np.ndarray]] = [[] for _ in candidates]
    for rows in _batches(discretisation, nodes, len(candidates[0]), memory):
        functions = {name: f[rows] for name, f in inputs.items()}
        for of_candidate, c in zip(errors, candidates, strict=True):
            of_candidate.append(newton_change(discretisation, nodes, functions, c[rows]))
    return tuple(np.concatenate(of_candidate) for of_candidate in errors)


def _batches(discretisation: Discretisation, nodes: Nodes, total: int, memory: int) -> list[slice]:
    size, points = discretisation.size, math.prod(n for _, n in nodes)
    held = (3 * size**2 if size <= DIRECT else ITERATIONS * size) + 40 * points
    batch = int(np.clip(memory // (8 * held), 1, total))
    return [slice(first, first + batch) for first in range(0, total, batch)]
