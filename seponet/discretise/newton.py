r"""Newton's method on the coefficients, for many functions at once: $J(c)\,\delta = -G(c)$, in float64.

- Few coefficients: the matrix of every function, factorised.
- Many: GMRES on $P^{-1} J \delta = -P^{-1} G$ with the averaged Jacobian P, or its blocks; nothing larger than a grid
  of values is held for a function.
- Steps that would lead too far are shortened (`newton_step.py`).
- Functions for which that fails are led along $G(c) = (1 - \lambda)\, G(c_0)$ from $\lambda = 0$, which c_0 solves, to
  one.
"""

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float64

from .._program import compiled_briefly
from ..calculus.collocation import Nodes
from ..functions import Functions
from .discretisation import Discretisation
from .newton_step import ITERATIONS, Step, newton_step
from .preconditioner import AbstractPreconditioner
from .steady import make_inverse
from .test_functions import is_square, make_tests
from .tested import TestedResiduals

DIRECT = 1200
"""Up to this many coefficients the matrix of every function is factorised: below 0.1 s for each."""

LARGEST_DIRECT = 3000
"""Where iterations fail, matrices are factorised up to this size."""

STEPS = 15
"""Newton steps."""

ACCEPTABLE = 100
"""How much larger than the tolerance the last change may be where it does not fall any more."""

LEADS = 16
"""Steps of the continuation, at most."""

FEW = 200
"""Up to this many functions, compiling takes longer than computing."""

SOLVED = ("coefficients", "converged", "change", "norms")
"""What solutions have of every function."""

MEMORY = 1 << 30
"""Bytes for matrices, directions and values, about: it bounds how many functions are solved at a time."""

_brief_step, _step = compiled_briefly(newton_step), eqx.filter_jit(newton_step)


@dataclass(frozen=True)
class Solved:
    """Coefficients that solve the tested equations.

    - `coefficients`: those of every function.
    - `converged`: for which functions Newton's method has ended.
    - `change`: the last change of the coefficients, or what is left after it where that is known, relative to the
        solution.
    - `norms`: the L2 norms of the solutions, fields together.
    - `method`: "direct" or "iterative".
    """

    coefficients: Float64[np.ndarray, "functions fields *_"]
    converged: Bool[np.ndarray, " functions"]
    change: Float64[np.ndarray, " functions"]
    norms: Float64[np.ndarray, " functions"]
    method: str


def newton(
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Functions],
    start: Float64[np.ndarray, "functions fields *_"],
    *,
    tolerance: float = 1e-8,
    steps: int = STEPS,
    shared: bool = False,
    direct: bool = False,
    led: Bool[np.ndarray, " functions"] | None = None,
) -> Solved:
    """The solutions of the tested equations for a batch of inputs. To be called in double precision.

    **Arguments:**

    - `discretisation`, `nodes`: the trial functions, and the quadrature.
    - `inputs`: functions by name, derived ones included.
    - `start`: the first guess; zero is the lift alone.
    - `tolerance`: Newton's method ends when the coefficients change by less than this part of the solution. Where
        rounding does not let them, `ACCEPTABLE` times as much counts as converged.
    - `steps`: the most Newton steps.
    - `shared`: whether all functions have one Jacobian, so that the averaged one is theirs (`slope_variation`).
    - `direct`: whether to factorise the matrix of every function, however large it is.
    - `led`: for which functions a continuation is tried where Newton's method fails: it takes ten times as long. By
        default for all.
    """
    total = len(start)
    led = np.ones(total, bool) if led is None else led
    # Least squares, of more rows than coefficients, are for factorisations only.
    few = discretisation.size <= DIRECT and not shared
    direct = direct or few or not is_square(discretisation, make_tests(discretisation))
    batch, preconditioner = _prepare(discretisation, nodes, inputs, start, direct=direct)
    parts: list[Solved] = []
    step = _brief_step if total <= FEW else _step
    for first in range(0, total, batch):
        # The last batch is filled up with its first function, so that one program serves all.
        rows = np.minimum(np.arange(first, first + batch), total - 1)
        functions = {name: f[rows] for name, f in inputs.items()}
        solver = _Solver(discretisation, nodes, functions, preconditioner, step)
        solved = solver.solve(start[rows], tolerance, steps, led[rows])
        parts.append(rows_of(solved, np.arange(min(batch, total - first))))
    joined = [np.concatenate([getattr(p, n) for p in parts]) for n in SOLVED]
    return Solved(*joined, method=parts[-1].method)


def newton_change(
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Functions],
    coefficients: Float64[np.ndarray, "functions fields *_"],
) -> Float64[np.ndarray, " functions"]:
    """How far one Newton step moves given coefficients, relative to the solutions: their error as solutions of these
    tested equations, to first order. To be called in double precision."""
    total, changes = len(coefficients), []
    batch, preconditioner = _prepare(discretisation, nodes, inputs, coefficients, direct=discretisation.size <= DIRECT)
    for first in range(0, total, batch):
        rows = np.minimum(np.arange(first, first + batch), total - 1)
        functions, c = {name: f[rows] for name, f in inputs.items()}, jnp.asarray(coefficients[rows])
        step = _brief_step(discretisation, nodes, functions, c, None, preconditioner)
        changes.append(np.asarray(step.moved) / np.maximum(np.asarray(step.norms), 1e-300))
    return np.concatenate(changes)[:total]


class _Solver:
    """Newton's method for one batch."""

    def __init__(
        self,
        discretisation: Discretisation,
        nodes: Nodes,
        inputs: Mapping[str, Functions],
        preconditioner: AbstractPreconditioner | None,
        step: Callable[..., Step],
    ) -> None:
        self.discretisation, self.nodes, self.inputs, self.step = discretisation, nodes, inputs, step
        self.preconditioner = preconditioner
        self.method = "direct" if preconditioner is None else "iterative"

    def solve(self, start: np.ndarray, tolerance: float, steps: int, led: np.ndarray) -> Solved:
        solved = self._solve(start, tolerance, steps)
        failed = np.flatnonzero(~solved.converged)
        if len(failed) and self.method == "iterative" and self.discretisation.size <= LARGEST_DIRECT:
            self.method = "direct"
            filled, others = self._of(failed)
            solved = with_rows(solved, failed, others._solve(start[filled], tolerance, steps))
        failed = np.flatnonzero(~solved.converged & led)
        if len(failed):
            filled, others = self._of(failed)
            solved = with_rows(solved, failed, others._led(start[filled], tolerance))
        return solved

    def _of(self, rows: np.ndarray) -> tuple[np.ndarray, "_Solver"]:
        """Some functions, their number filled up to a power of two, and a solver for them alone."""
        filled, solver = padded(rows), copy(self)
        solver.inputs = {name: f[filled] for name, f in self.inputs.items()}
        return filled, solver

    def _solve(self, start: np.ndarray, tolerance: float, steps: int) -> Solved:
        c, change, norms, converged = self._iterate(jnp.asarray(start), None, tolerance, steps)
        return Solved(np.asarray(c), converged, change, norms, self.method)

    def _led(self, start: np.ndarray, tolerance: float) -> Solved:
        """By continuation."""
        c, reached = self._lead(jnp.asarray(start), tolerance)
        c, change, norms, converged = self._iterate(c, None, tolerance, 3)
        return Solved(np.asarray(c), converged & reached, change, norms, self.method)

    def _iterate(
        self, c: Array, target: Array | None, tolerance: float, steps: int
    ) -> tuple[Array, np.ndarray, np.ndarray, np.ndarray]:
        """Newton steps until all functions have converged, or hope is lost."""
        preconditioner = self.preconditioner if self.method == "iterative" else None
        change = norms = np.ones(len(c))
        converged = np.zeros(len(c), bool)
        best, since = np.full(len(c), np.inf), 0
        for step in range(steps):
            taken = self.step(self.discretisation, self.nodes, self.inputs, c, target, preconditioner)
            c, norms = taken.coefficients, np.asarray(taken.norms)
            with np.errstate(invalid="ignore", over="ignore"):  # iterations that diverge are told as infinite
                change = np.asarray(taken.left) / np.maximum(norms, 1e-300)
            change = np.where(np.isfinite(change), change, np.inf)
            converged = change <= tolerance
            if np.all(converged):
                break
            since = 0 if np.any(~converged & (change < 0.5 * best)) else since + 1
            best = np.minimum(best, change)
            # Rounding, or a guess from which no step helps.
            near = change <= ACCEPTABLE * tolerance
            if since >= 3 and (step > 6 or np.all(near)):
                break
        return c, change, norms, change <= ACCEPTABLE * tolerance

    def _lead(self, c: Array, tolerance: float) -> tuple[Array, np.ndarray]:
        """Continuation, each function with its own step."""
        start = _rows(self.discretisation, self.nodes, self.inputs, c)
        reached, length = np.zeros(len(c)), np.full(len(c), 0.25)
        for _ in range(LEADS):
            if np.all((reached >= 1.0) | (length < 1 / 50)):
                break
            goal = np.minimum(reached + length, 1.0)
            target = start * jnp.asarray(1 - goal)[:, None]
            tried, change, _, _ = self._iterate(c, target, max(tolerance, 1e-4), 6)
            success = change < 1e-3
            c = _where(success, tried, c)
            reached = np.where(success, goal, reached)
            length = np.where(success, 2 * length, length / 2)
        return c, reached >= 1.0


def with_rows(solved: Solved, rows: np.ndarray, others: Solved) -> Solved:
    """Solutions, some of them replaced by the first of others."""
    arrays = {name: getattr(solved, name).copy() for name in SOLVED}
    for name in SOLVED:
        arrays[name][rows] = getattr(others, name)[: len(rows)]
    return Solved(**arrays, method=others.method)


def rows_of(solved: Solved, rows: np.ndarray) -> Solved:
    """The solutions of some functions."""
    return Solved(**{name: getattr(solved, name)[rows] for name in SOLVED}, method=solved.method)


def padded(rows: np.ndarray) -> np.ndarray:
    """The last of some rows repeated up to a power of two, so that one compiled program serves many numbers."""
    count = 1 << max(len(rows) - 1, 0).bit_length()
    return rows[np.minimum(np.arange(count), len(rows) - 1)]


def _where(chosen: np.ndarray, first: Any, second: Any) -> Array:
    return jnp.where(jnp.asarray(chosen).reshape(-1, *(1,) * (np.ndim(first) - 1)), first, second)


@compiled_briefly
def _rows(discretisation: Discretisation, nodes: Nodes, inputs: Any, c: Array) -> Float[Array, "functions rows"]:
    return TestedResiduals(discretisation, nodes, inputs, len(c))(c)


def _prepare(
    discretisation: Discretisation, nodes: Nodes, inputs: Mapping[str, Functions], start: np.ndarray, *, direct: bool
) -> tuple[int, AbstractPreconditioner | None]:
    """How many functions are solved at a time, and what iterations on them are preconditioned with."""
    batch = _batch(discretisation, nodes, len(start), direct=direct)
    if direct:
        return batch, None
    rows = np.arange(min(batch, len(start)))
    functions = {name: f[rows] for name, f in inputs.items()}
    preconditioner = make_inverse(discretisation, nodes, functions, jnp.asarray(start[rows]))
    return min(batch, _fitting(preconditioner.held(discretisation))), preconditioner


def _batch(discretisation: Discretisation, nodes: Nodes, total: int, *, direct: bool = False) -> int:
    size, points = discretisation.size, math.prod(n for _, n in nodes)
    held = 3 * size**2 if size <= DIRECT or direct else (ITERATIONS + 10) * size + 30 * points
    return min(_fitting(held + 20 * points), max(total, 1))


def _fitting(numbers: int) -> int:
    """How many functions of so many numbers fit into the memory, one at least."""
    return max(MEMORY // (8 * max(numbers, 1)), 1)
