r"""Coefficients that a few Newton steps improve, inside of a compiled program: the targets of a network.

A target need not be better than a tenth of the network's error, so float32 and few iterations are enough; and from the
network's own answer there is little left to do.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._precision import double_precision
from .._program import OwnProgram
from ..calculus.collocation import Nodes
from ..equations.problem import Problem
from ..functions import Functions
from .discretisation import Discretisation
from .newton_step import newton_step
from .norms import increment_norms, solution_norms
from .preconditioner import AbstractPreconditioner, Inverse, make_preconditioner
from .steady import make_steady
from .tested import TestedResiduals, slope_variation

SAMPLED = 32
"""Functions over which the Jacobian is averaged."""

LATE = 0.1
"""The part of a batch that is not waited for."""

LAGGING = 30
"""How much longer than the tolerance the last step of a function may be; with a longer one it is not solved."""

HELD = 1 << 27
"""Bytes for the inverses of functions that are solved together, at most."""

SAME = 1e-5
"""By how much the slopes of functions may differ that have one Jacobian."""


class NotSolved(ValueError):
    """Too few of the sampled inputs are solved for anything to be trained on them."""


class Corrected(NamedTuple):
    """Improved coefficients.

    - `coefficients`: those of every function.
    - `change`: the length of the last Newton step, relative to the solution: infinite where there was none.
    - `norms`: the L2 norms of the solutions, fields together.
    - `solved`: which functions are.
    """

    coefficients: Float[Array, "functions fields *_"]
    change: Float[Array, " functions"]
    norms: Float[Array, " functions"]
    solved: Bool[Array, " functions"]


class Corrector(eqx.Module):
    """Newton's method with the averaged Jacobian as preconditioner, for whole batches.

    **Arguments:**

    - `discretisation`, `nodes`: the trial functions, and the quadrature.
    - `preconditioner`: of sampled functions, or of each one's own, in the precision of the coefficients.
    - `steps`: Newton steps, at most.
    - `iterations`, `forcing`: of GMRES in each, and the part of the residual that may be left.
    - `tolerance`: a batch ends when all but `LATE` of its functions change by less than this part of their solutions:
        the slowest ones would cost more than all others (of a Korteweg-de Vries equation, five times as much).
    - `linear`: whether Jacobians do not depend on the coefficients, and the preconditioner is their inverse: then a
        step is a product, and the next one tells that it was enough.
    """

    discretisation: Discretisation = eqx.field(static=True)
    nodes: Nodes = eqx.field(static=True)
    preconditioner: AbstractPreconditioner
    steps: int = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    forcing: float = eqx.field(static=True, default=0.1)
    tolerance: float = eqx.field(static=True, default=1e-4)
    linear: bool = eqx.field(static=True, default=False)

    def __call__(self, inputs: Mapping[str, Functions], start: Float[Array, "functions fields *_"]) -> Corrected:
        """Coefficients that nearly solve the tested equations.

        **Arguments:**

        - `inputs`: the functions, derived ones included.
        - `start`: a guess, for instance the network's; a function whose lift is nearer to its solution starts there.
        """
        count, held = len(start), self.preconditioner.held(self.discretisation) * start.dtype.itemsize
        chunks = next(n for n in range(1, count + 1) if count % n == 0 and held * count <= n * max(HELD, held))
        if chunks == 1:
            return self._together(inputs, start)
        rows = jnp.arange(count).reshape(chunks, -1)
        parts = jax.lax.map(lambda of: self._together({name: f[of] for name, f in inputs.items()}, start[of]), rows)
        return jax.tree.map(lambda leaf: leaf.reshape(count, *leaf.shape[2:]), parts)

    def _together(self, inputs: Mapping[str, Functions], start: Float[Array, "functions fields *_"]) -> Corrected:
        tested = TestedResiduals(self.discretisation, self.nodes, inputs, len(start))
        # No constant of zeros, which XLA would multiply with all tables while it compiles.
        invert = self.preconditioner.at(tested, tested.linearise(0.0 * start)[1])
        start = start if self.linear else _nearer(tested, invert, start)
        norms = solution_norms(self.discretisation, inputs, self.nodes, start)
        first = Corrected(start, jnp.full(len(start), jnp.inf, start.dtype), norms, jnp.zeros(len(start), bool))

        def unfinished(carry: tuple[Array, Corrected]) -> Array:
            done, corrected = carry
            return (done < self.steps) & (jnp.mean(corrected.change > self.tolerance) > LATE)

        def improve(carry: tuple[Array, Corrected]) -> tuple[Array, Corrected]:
            done, corrected = carry
            c, moved, norms = self._step(inputs, tested, invert, corrected.coefficients)
            change = moved / jnp.maximum(norms, jnp.finfo(norms.dtype).tiny)
            finite = jnp.isfinite(change) & jnp.all(jnp.isfinite(c), axis=tuple(range(1, c.ndim)))
            change = jnp.where(finite, change, jnp.inf)
            return done + 1, Corrected(c, change, norms, change <= LAGGING * self.tolerance)

        return jax.lax.while_loop(unfinished, improve, (jnp.asarray(0), first))[1]

    def _step(
        self, inputs: Any, tested: TestedResiduals, invert: Inverse, c: Array
    ) -> tuple[Array, Float[Array, " functions"], Float[Array, " functions"]]:
        """The next coefficients, how far they moved, and the norms of the solutions."""
        if not self.linear:
            taken = newton_step(
                self.discretisation,
                self.nodes,
                inputs,
                c,
                None,
                self.preconditioner,
                self.forcing,
                self.iterations,
            )
            return taken.coefficients, taken.moved, taken.norms
        delta = invert(tested(c))
        moved = increment_norms(self.discretisation, inputs, self.nodes, delta)
        return c - delta, moved, solution_norms(self.discretisation, inputs, self.nodes, c - delta)


def _nearer(tested: TestedResiduals, invert: Inverse, start: Array) -> Array:
    """Of a guess and of zero, for each function, that of smaller |P^-1 G|."""

    def size(c: Array) -> Array:
        return jnp.linalg.norm(invert(tested(c)).reshape(len(c), -1), axis=1)

    better = size(start) < size(0.0 * start)
    return jnp.where(better.reshape(-1, *(1,) * (start.ndim - 1)), start, 0.0)


def make_corrector(
    problem: Problem,
    discretisation: Discretisation,
    nodes: Nodes,
    key: Any,
    *,
    steps: int,
    iterations: int,
    tolerance: float,
) -> Corrector:
    """A corrector whose preconditioner is the Jacobian averaged over sampled functions at their solutions; these come
    from one that is averaged at their lifts. `NotSolved` if it solves less than half of them. Where each function's
    own Jacobian can be inverted, and functions differ in it, it is."""
    inputs = jax.jit(lambda key: problem.sample(key, SAMPLED))(key)
    count = SAMPLED if problem.inputs else 1
    with double_precision():
        functions = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), inputs)

    def corrector_with(preconditioner: AbstractPreconditioner, *, linear: bool = False) -> Corrector:
        cast = jax.tree.map(_in_precision, preconditioner)
        return Corrector(discretisation, nodes, cast, steps, iterations, tolerance=tolerance, linear=linear)

    def averaged(c: Array) -> Corrector:
        with double_precision():
            preconditioner = make_preconditioner(discretisation, nodes, functions, jnp.asarray(c, float))
        return corrector_with(preconditioner)

    lift = jnp.zeros((count, *discretisation.coefficient_shape()))
    # In float32, slopes that are the same differ by their rounding.
    shared = bool(slope_variation(discretisation, nodes, inputs, count) < SAME)
    if not shared:
        with double_precision():
            steady = make_steady(discretisation, nodes, functions, count)
        if steady is not None:
            own = corrector_with(steady, linear=True)
            if np.all(OwnProgram(own, brief=True)(inputs, lift).solved):
                return own
    corrected = OwnProgram(averaged(lift), brief=True)(inputs, lift)
    solved = corrected.solved.reshape(-1, *(1,) * (lift.ndim - 1))
    corrector = averaged(jnp.where(solved, corrected.coefficients, 0.0))
    if (
        np.mean(corrected.solved) < 0.5
        and np.mean(again := OwnProgram(corrector, brief=True)(inputs, lift).solved) < 0.5
    ):
        raise NotSolved(
            f"only {int(np.sum(again))} of {count} sampled inputs of {type(problem).__name__} are solved by {steps} "
            f"Newton steps of {iterations} iterations"
        )
    if shared:
        simple = dataclasses.replace(corrector, linear=True)
        if np.all(OwnProgram(simple, brief=True)(inputs, lift).solved):
            return simple
    return corrector


def _in_precision(array: Array) -> Array:
    """In the precision that is in use, real or complex."""
    return array.astype(jnp.result_type(complex if jnp.iscomplexobj(array) else float))
