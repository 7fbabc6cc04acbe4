"""Nested discretisations, the basis of an operator among them, and the solvers of their levels."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float64

from .._precision import double_precision
from ..calculus.collocation import Nodes
from ..discretise.bandwidth import Bandwidth, resolving_nodes
from ..discretise.discretisation import Discretisation, Ranks, apply_along
from ..discretise.level import Level, increment_sizes
from ..discretise.newton import DIRECT, LARGEST_DIRECT, Solved, newton, padded, rows_of, with_rows
from ..discretise.preconditioner import Preconditioner, is_solvable, make_preconditioner
from ..discretise.steady import is_narrow, make_steady
from ..discretise.test_functions import is_square, make_tests
from ..functions import Functions
from .evaluators import Evaluators
from .level_solver import LevelSolver

GROWTH = 1.5
"""How many times as many functions a level has along every axis as the one before it."""

BELOW, FASTEST, FEWEST = 2, 2.25, 4
"""Levels below the basis, at most; by how much errors grow from one to the next below it, about (where they grow by
more, the next level is needed as well); and the fewest functions along an axis."""

LARGEST, MOST_ALONG = 30_000, 192
"""Coefficients of one function, and functions along one axis, at most."""

ITERATIONS = 0.1
"""The part of the tolerance that may be left of Newton's method."""

AGREED = 0.3
"""The part of the tolerance that two solvers of one level may differ by."""

AMPLIFIED = 3.0
"""How many times as large as preconditioned residuals errors may be for iterations to need no other check."""

NEWTON = 1e-3
"""The part of the tolerance at which the robust solver ends: with iterations it looks at its last step, and not at
what is left."""

STRICT, THIRTY_FOLD = 1e-3, 1 / 30
"""The part of a preconditioned residual that iterations may leave: where the average Jacobian is a poor one, as for
transport, a per cent of the residual can hide a tenth of the error; where it is a good one, residuals are errors."""

SINGLE = 3e-4
"""From this tolerance on, float32 is enough."""

MANY = 4
"""From so many functions on, the averaged Jacobian preconditions the robust solver; fewer are factorised one by
one."""

KEPT = 12
"""How many compiled solvers a ladder keeps."""


class Ladder:
    """Nested discretisations, with the solvers of their levels, which are compiled when they are first needed.

    **Arguments:**

    - `base`: the first of them.
    - `inputs`, `coefficients`: functions like those that will be solved, and coefficients near their solutions in
        `base`, in float64: Jacobians are averaged over them.
    - `forcing`: the part of a residual that iterations may leave, at most.
    - `largest`: the most coefficients of one function.
    - `brief`: whether its solvers will not run often enough to be compiled well.
    """

    def __init__(
        self,
        base: Discretisation,
        inputs: Mapping[str, Functions],
        coefficients: Float64[np.ndarray, "functions fields *_"],
        forcing: float = STRICT,
        largest: int = LARGEST,
        brief: bool = False,
    ) -> None:
        self.base, self.forcing, self.largest, self.brief = base, forcing, largest, brief
        self._levels: dict[int, Discretisation | None] = {}
        self.sample = dict(inputs), coefficients
        self._solvers: dict[tuple[Ranks, Nodes, bool], LevelSolver] = {}
        self._embeddings: dict[tuple[Ranks, Ranks], list[list[np.ndarray]]] = {}
        self._evaluators: dict[Ranks, Evaluators] = {}

    def discretisation(self, level: int) -> Discretisation | None:
        """The basis of a level. None if it would be too large."""
        if level not in self._levels:
            scaled = resized(self.base, GROWTH**level) if level else self.base
            larger = not level or scaled.ranks != resized(self.base, GROWTH ** (level - 1)).ranks
            possible = not level or (larger and scaled.size <= self.largest and self._is_possible(scaled))
            self._levels[level] = scaled if possible else None
        return self._levels[level]

    def lowest(self, ratio: float, below: int = BELOW) -> int:
        """The level to begin on for a tolerance that is `ratio` times the error that the basis is known to be good
        for: at most `below` it if it is a loose one, since every level costs several times as much as the last."""
        level = 0
        while level > -below and ratio >= FASTEST ** (1 - level):
            lower = self.discretisation(level - 1)
            if lower is None or min(rank for _, rank in lower.ranks) < FEWEST or not is_checked(lower):
                break
            level -= 1
        return level

    def moved(self, coarse: Discretisation, fine: Discretisation, coefficients: np.ndarray) -> np.ndarray:
        """The same functions in another basis, or their projections: `prolong`, with matrices that are kept."""
        key = coarse.ranks, fine.ranks
        if key not in self._embeddings:
            self._embeddings[key] = coarse.embedding(fine)
        return apply_along(self._embeddings[key], coefficients, back=False)

    def evaluators(self, discretisation: Discretisation) -> Evaluators:
        """Those of one level."""
        if discretisation.ranks not in self._evaluators:
            self._evaluators[discretisation.ranks] = Evaluators(discretisation, no_branch)
        return self._evaluators[discretisation.ranks]

    def solve(
        self,
        discretisation: Discretisation,
        needs: Sequence[Bandwidth],
        inputs: Mapping[str, Functions],
        guess: Float64[np.ndarray, "functions fields *_"],
        rtol: float,
        far: Bool[np.ndarray, " functions"],
        led: Bool[np.ndarray, " functions"],
    ) -> tuple[Level, Bool[np.ndarray, " functions"]]:
        """The solutions of one level: by its compiled solver, and where that fails by the robust one.

        Iterations are judged by a Jacobian that is averaged over functions like those of the calibration. For others it
        may call an answer converged that is far from any solution, level by level the same one. So for those that are
        `far` it is measured how much larger errors are than what iterations see, and what these leave counts so much
        more. Where that is a lot, functions are solved with their own matrices as well, as long as these are not too
        large. Those that are `led` get a continuation where all of that fails, in bases in which it takes no minutes.

        **Returns:** the level, and which functions can be believed: those that are not far, those whose iterations can
        be judged, and those that both solvers agree on.
        """
        nodes, count = resolving_nodes(discretisation.ranks, needs), len(guess)
        square = is_square(discretisation, make_tests(discretisation))
        nothing = np.zeros(count)
        solved = Solved(guess, np.zeros(count, bool), nothing + np.inf, nothing, "none")
        solver = self._solver(discretisation, nodes, single=rtol >= SINGLE) if square else None
        if solver is not None:
            solved = solver(inputs, guess, ITERATIONS * rtol)
        tolerance = max(NEWTON * rtol, 1e-11)
        checked = is_checked(discretisation)
        led = led & (discretisation.size <= DIRECT)
        rest = np.flatnonzero(~solved.converged & ~(far & checked))
        if len(rest):
            options = {"tolerance": tolerance, "shared": square and len(rest) >= MANY, "led": led}
            solved = with_rows(solved, rest, _newton_of(discretisation, nodes, inputs, guess, rest, **options))
        level, agreed = Level(discretisation, nodes, solved), np.ones(count, bool)
        rest = np.flatnonzero(far)
        if len(rest) and solver is not None:
            filled = padded(rest)
            functions = {name: f[filled] for name, f in inputs.items()}
            found = solver.amplification(functions, solved.coefficients[filled])[: len(rest)]
            solved.change[rest] = np.where(np.isfinite(found), np.maximum(found, 1.0) * solved.change[rest], np.inf)
            agreed[rest] = solved.converged[rest] & np.isfinite(found)
            rest = rest[~agreed[rest] | (found > AMPLIFIED)]
        if len(rest) and checked:
            known = solved.converged.reshape(-1, *(1,) * (guess.ndim - 1))
            start = np.where(known, solved.coefficients, guess)
            options = {"tolerance": tolerance, "direct": True, "led": led}
            own = _newton_of(discretisation, nodes, inputs, start, rest, **options)
            level = Level(discretisation, nodes, with_rows(solved, rest, own))
            moved = increment_sizes(level, inputs, level.solved.coefficients - start)
            agreed[rest] = (solved.converged & (moved <= AGREED * rtol * level.solved.norms))[rest]
        return level, agreed

    def is_reliable(
        self,
        discretisation: Discretisation,
        needs: Sequence[Bandwidth],
        inputs: Mapping[str, Functions],
        coefficients: Float64[np.ndarray, "functions fields *_"],
    ) -> bool:
        """Whether most functions can be solved in a basis: with matrices of their own, or since iterations with the
        averaged Jacobian reach all directions. To be called in double precision."""
        if is_checked(discretisation) or not is_square(discretisation, make_tests(discretisation)):
            return True
        solver = self._solver(discretisation, resolving_nodes(discretisation.ranks, needs), single=False)
        near = self.moved(self.base, discretisation, coefficients)
        return bool(np.mean(np.isfinite(solver.amplification(inputs, near))) > 0.5)

    def step(
        self,
        discretisation: Discretisation,
        nodes: Nodes,
        inputs: Mapping[str, Functions],
        start: Float64[np.ndarray, "functions fields *_"],
        far: Bool[np.ndarray, " functions"] | None = None,
    ) -> tuple[Float64[np.ndarray, "functions fields *_"], Float64[np.ndarray, " functions"]]:
        """The coefficients after one Newton step in some basis, and how far it moved them, relative to the solutions;
        of those that are `far` with their own matrices, as in `solve`. To be called in double precision."""
        if is_square(discretisation, make_tests(discretisation)):
            # Whatever the first step changes is within an infinite tolerance.
            solved = self._solver(discretisation, nodes, single=False)(inputs, start, math.inf)
            rest = np.flatnonzero(far) if far is not None and is_checked(discretisation) else np.zeros(0, int)
        else:
            rest = np.arange(len(start))
            nothing = np.zeros(len(start))
            solved = Solved(start, nothing > 0, nothing + np.inf, nothing, "none")
        if len(rest):
            own = _newton_of(discretisation, nodes, inputs, start, rest, tolerance=math.inf, steps=1, direct=True)
            solved = with_rows(solved, rest, own)
        moved = increment_sizes(Level(discretisation, nodes, solved), inputs, solved.coefficients - start)
        return solved.coefficients, np.where(solved.converged, moved / np.maximum(solved.norms, 1e-300), np.inf)

    def _is_possible(self, discretisation: Discretisation) -> bool:
        return is_possible(discretisation) or (is_narrow(discretisation) and self._steady)

    @cached_property
    def _steady(self) -> bool:
        """Whether functions have an inverse Jacobian of their own, so that none need be averaged."""
        inputs, coefficients = self.sample
        few = tuple((name, rank + 2) for name, rank in self.base.ranks)
        with double_precision():
            return make_steady(self.base, few, inputs, len(coefficients)) is not None

    def preconditioner(self, discretisation: Discretisation, nodes: Nodes) -> Preconditioner:
        """The inverse of the averaged Jacobian in some basis, in float64."""
        if is_square(discretisation, make_tests(discretisation)):
            found = self._solver(discretisation, nodes, single=False).preconditioner
            if isinstance(found, Preconditioner):
                return found
        inputs, coefficients = self.sample
        near = jnp.asarray(self.moved(self.base, discretisation, coefficients))
        return make_preconditioner(discretisation, nodes, inputs, near)

    def _solver(self, discretisation: Discretisation, nodes: Nodes, *, single: bool) -> LevelSolver:
        key = discretisation.ranks, nodes, single
        if key not in self._solvers:
            while len(self._solvers) >= KEPT:
                self._solvers.pop(next(iter(self._solvers)))
            inputs, coefficients = self.sample
            near = self.moved(self.base, discretisation, coefficients)
            self._solvers[key] = LevelSolver(
                discretisation, nodes, inputs, near, forcing=self.forcing, single=single, brief=self.brief
            )
        return self._solvers[key]


def no_branch(_inputs: object) -> Array:
    raise ValueError("a discretisation has no coefficients of its own")


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


def is_checked(discretisation: Discretisation) -> bool:
    """Whether functions that are far from the calibrated ones are solved with matrices of their own."""
    return discretisation.size <= LARGEST_DIRECT


def _newton_of(
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Functions],
    start: Float64[np.ndarray, "functions fields *_"],
    rows: np.ndarray,
    led: Bool[np.ndarray, " functions"] | None = None,
    **options: Any,
) -> Solved:
    """The robust solver's answers for some of the functions."""
    filled = padded(rows)
    functions = {name: f[filled] for name, f in inputs.items()}
    chosen = None if led is None else led[filled]
    solved = newton(discretisation, nodes, functions, start[filled], led=chosen, **options)
    return rows_of(solved, np.arange(len(rows)))
