r"""Newton's method on one level of a ladder: compiled once, preconditioned once, for whole batches.

$P^{-1} J(c)\,\delta = P^{-1} G(c)$ is solved by GMRES with the averaged Jacobian P of functions like those that the
operator was calibrated on. How much of an error is left after a step is told without another one: the step times the
factor $|P^{-1} G(c - \delta)| / |P^{-1} G(c)|$, in which what P gets wrong cancels. So a good start, and a tolerance
that is not small, make one step enough. Whatever does not fall by half is left to the robust solver (`newton`).
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float64

from .._precision import double_precision
from .._program import OwnProgram
from ..calculus.collocation import Nodes
from ..discretise.discretisation import Discretisation
from ..discretise.gmres import gmres
from ..discretise.newton import Solved
from ..discretise.norms import increment_norms, solution_norms
from ..discretise.preconditioner import AbstractPreconditioner
from ..discretise.steady import make_inverse
from ..discretise.tested import TestedResiduals
from ..functions import Functions

STEPS, ITERATIONS = 6, 40
"""Newton steps, and iterations of GMRES in each."""

ENOUGH, LEAST = 0.3, 1e-4
"""GMRES ends when its residual is this part of the tolerance, and has fallen thirty-fold or as the ladder asks for; it
need not fall to less than the second number."""

FALLING = 0.5
"""The part of the residual that a step may leave, at most."""

PROBED = 0.3
"""The part of a random vector that iterations on it may leave, in units of what it has along one direction: those that
they do not reach are noticed one by one."""

BATCHES = (1, 4, 16)
"""How many functions are solved together: the least of these that holds them, and several of the largest."""

MEMORY = 1 << 28
"""Bytes for the directions of GMRES and values on the grid, about."""


class LevelSolver:
    """Solutions in one discretisation.

    **Arguments:**

    - `discretisation`, `nodes`: the trial functions, and the quadrature.
    - `inputs`, `coefficients`: functions that the Jacobian is averaged over, and about where, in float64.
    - `forcing`: the part of a residual that GMRES may leave, at most.
    - `single`: whether to compute in float32.
    - `brief`: whether to compile it in a hurry.
    """

    def __init__(
        self,
        discretisation: Discretisation,
        nodes: Nodes,
        inputs: Mapping[str, Functions],
        coefficients: Float64[np.ndarray, "functions fields *_"],
        *,
        forcing: float,
        single: bool,
        brief: bool = False,
    ) -> None:
        self.discretisation, self.nodes, self.single = discretisation, nodes, single
        with double_precision():
            preconditioner = make_inverse(discretisation, nodes, inputs, jnp.asarray(coefficients))
            self.preconditioner = self._cast(preconditioner)
        item, points = (4 if single else 8), math.prod(n for _, n in nodes)
        numbers = (ITERATIONS + 10) * discretisation.size + 40 * points + preconditioner.held(discretisation)
        held = item * numbers
        self.batches = [batch for batch in BATCHES if batch * held <= MEMORY] or [1]
        self._program = OwnProgram(partial(_correct, discretisation, nodes, forcing), brief=brief)
        self._probe = OwnProgram(partial(_amplify, discretisation, nodes), brief=brief)

    def __call__(
        self, inputs: Mapping[str, Functions], start: Float64[np.ndarray, "functions fields *_"], tolerance: float
    ) -> Solved:
        """The solutions for some inputs, in float64 as they are given and returned.

        **Arguments:**

        - `start`: the first guess.
        - `tolerance`: the relative error that may be left of the iterations. `change` of the result estimates it, and
            is infinite where they have not converged.
        """
        c, change, norms, converged = self._in_batches(self._program, inputs, start, tolerance)
        return Solved(
            c.astype(np.float64), converged, change.astype(np.float64), norms.astype(np.float64), method="iterative"
        )

    def amplification(
        self, inputs: Mapping[str, Functions], coefficients: Float64[np.ndarray, "functions fields *_"]
    ) -> Float64[np.ndarray, " functions"]:
        r"""How many times as large as a preconditioned residual an error is: $|(P^{-1} J)^{-1} z| / |z|$ for a random
        vector z, with the Jacobian J of each function at given coefficients. It is about one where the averaged
        Jacobian P is a good one, and infinite where iterations do not reach all of z: what they call a solution may be
        far from it then."""
        (found,) = self._in_batches(self._probe, inputs, coefficients)
        return found.astype(np.float64)

    def _in_batches(
        self, program: OwnProgram, inputs: Mapping[str, Functions], coefficients: np.ndarray, *more: float
    ) -> list[np.ndarray]:
        """What a program gives for all functions: the last batch is filled up, so that few programs serve all."""
        total, parts = len(coefficients), []
        size = next((batch for batch in self.batches if batch >= total), self.batches[-1])
        with double_precision():
            for first in range(0, total, size):
                rows = np.minimum(np.arange(first, first + size), total - 1)
                part = self._cast({name: f[rows] for name, f in inputs.items()})
                guess = self._cast(jnp.asarray(coefficients[rows]))
                with jax.enable_x64(not self.single):
                    parts.append(program(self.preconditioner, part, guess, *map(jnp.asarray, more)))
        return [np.concatenate([np.asarray(p) for p in of])[:total] for of in zip(*parts, strict=True)]

    def _cast(self, tree: Any) -> Any:
        real, imaginary = (jnp.float32, jnp.complex64) if self.single else (jnp.float64, jnp.complex128)

        def cast(leaf: Array) -> Array:
            if not jnp.issubdtype(leaf.dtype, jnp.inexact):
                return leaf
            return leaf.astype(imaginary if jnp.iscomplexobj(leaf) else real)

        return jax.tree.map(cast, tree)


class _Iterate(NamedTuple):
    """The state of Newton's method: steps so far, coefficients, the error that is left, norms, which have failed."""

    steps: Array
    c: Float[Array, "functions fields *_"]
    left: Float[Array, " functions"]
    norms: Float[Array, " functions"]
    failed: Bool[Array, " functions"]


def _correct(
    discretisation: Discretisation,
    nodes: Nodes,
    forcing: float,
    preconditioner: AbstractPreconditioner,
    inputs: Mapping[str, Functions],
    start: Float[Array, "functions fields *_"],
    tolerance: Float[Array, ""],
) -> tuple[Array, Float[Array, " functions"], Float[Array, " functions"], Bool[Array, " functions"]]:
    """Coefficients, the relative errors that are left, norms of the solutions, and which have converged."""
    tested, tiny = TestedResiduals(discretisation, nodes, inputs, len(start)), jnp.finfo(start.dtype).tiny

    def improve(iterate: _Iterate) -> _Iterate:
        rows, slopes = tested.linearise(iterate.c)
        invert = preconditioner.at(tested, slopes)
        preconditioned = lambda rows: invert(rows).reshape(len(start), -1)  # noqa: E731
        target = preconditioned(rows)
        apply = lambda flat: preconditioned(tested.push(slopes, flat.reshape(start.shape)))  # noqa: E731
        norms = solution_norms(discretisation, inputs, nodes, iterate.c)
        wanted = ENOUGH * tolerance * norms / jnp.maximum(_lengths(target), tiny)
        flat, _ = gmres(apply, target, jnp.clip(wanted, LEAST, forcing), ITERATIONS)
        delta = flat.reshape(start.shape)
        c = iterate.c - delta
        falls = _lengths(preconditioned(tested(c))) / jnp.maximum(_lengths(target), tiny)
        norms = solution_norms(discretisation, inputs, nodes, c)
        change = increment_norms(discretisation, inputs, nodes, delta) / jnp.maximum(norms, tiny)
        # At the rounding level residuals do not fall, and steps are short.
        failed = iterate.failed | ~((falls < FALLING) | (change <= tolerance))
        c = jnp.where(failed.reshape(-1, *(1,) * (c.ndim - 1)), iterate.c, c)
        return _Iterate(iterate.steps + 1, c, change * jnp.minimum(falls, 1.0), norms, failed)

    def unfinished(iterate: _Iterate) -> Array:
        first = iterate.steps == 0
        return first | ((iterate.steps < STEPS) & jnp.any((iterate.left > tolerance) & ~iterate.failed))

    none = jnp.zeros(len(start), start.dtype)
    first = _Iterate(jnp.asarray(0), start, none + jnp.inf, none, none > 0)
    last = jax.lax.while_loop(unfinished, improve, first)
    converged = (last.left <= tolerance) & ~last.failed
    return last.c, jnp.where(converged, last.left, jnp.inf), last.norms, converged


def _amplify(
    discretisation: Discretisation,
    nodes: Nodes,
    preconditioner: AbstractPreconditioner,
    inputs: Mapping[str, Functions],
    coefficients: Float[Array, "functions fields *_"],
) -> tuple[Float[Array, " functions"]]:
    tested, shape = TestedResiduals(discretisation, nodes, inputs, len(coefficients)), coefficients.shape
    _, slopes = tested.linearise(coefficients)
    invert = preconditioner.at(tested, slopes)

    def apply(flat: Array) -> Array:
        return invert(tested.push(slopes, flat.reshape(shape))).reshape(flat.shape)

    random = jax.random.normal(jax.random.key(0), (1, coefficients[0].size), coefficients.dtype)
    few = PROBED / math.sqrt(random.size)
    found, left = gmres(apply, jnp.broadcast_to(random, (len(coefficients), random.size)), few, ITERATIONS)
    return (jnp.where(left <= few, _lengths(found) / _lengths(random), jnp.inf),)


def _lengths(flat: Float[Array, "functions n"]) -> Float[Array, " functions"]:
    return jnp.linalg.norm(flat, axis=1)
