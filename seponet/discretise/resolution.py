r"""How many functions and nodes a problem needs along each axis for a tolerance, measured on sampled inputs.

The error of a discretisation is its distance to one that is finer by half along every axis, never to itself. So each
round solves on ranks R, looks how much of the solution lies beyond two thirds of them along each axis, and grows the
axes that need it; once all are small, the discretisation with two thirds of R is solved as well, and the difference of
the two is its error. Nodes are checked by a Newton step on a grid that is half again as fine: what it changes is the
error of the quadrature.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from .._precision import double_precision
from .._text import percent
from ..calculus.collocation import Nodes
from ..calculus.kinks import find_kinks
from ..equations.problem import Problem
from ..functions import Functions
from .bandwidth import Bandwidth, bandwidths, resolving_nodes
from .discretisation import Discretisation, apply_along
from .level import Level, distance, increment_sizes, solve_level, why_no_start
from .newton import DIRECT, LARGEST_DIRECT, newton_change
from .preconditioner import is_solvable
from .resolved import FINER, Resolution
from .test_functions import is_square, make_tests
from .tested import slope_variation

logger = logging.getLogger(__name__)

LARGEST, MOST_ALONG = 60_000, 192
"""Coefficients in all, and functions along one axis, that are tried: tens of seconds in three dimensions."""

ROUNDS = 14

FIRST = {1: 16, 2: 12, 3: 8}
"""Functions along each axis in the first round, for as many axes; 6 for more."""

UNSEEN, CLOSER = 0.01, 0.01
"""The part of the tolerance that nodes may miss of an input; and the part of that where functions can't be solved."""

BEYOND = 1.06
"""The true error of a discretisation relative to its distance to the finer one, at most: the two errors are nearly
orthogonal, and the finer has a third of it or less. Against finite elements on seven mapped domains: 1.00 to 1.05."""

Progress = Callable[[str], None]


def resolve(
    problem: Problem,
    inputs: Mapping[str, Functions],
    tolerance: float,
    *,
    exact: Sequence[str] | None = None,
    progress: Progress | None = None,
    each: bool = False,
    start: "Resolution | None" = None,
    largest: int = LARGEST,
) -> Resolution:
    """The smallest discretisation, or nearly, whose mean error over given inputs is below a tolerance.

    **Arguments:**

    - `problem`: the equation.
    - `inputs`: the functions it is measured on, by name: eight or more.
    - `tolerance`: the relative L2 error that is wanted.
    - `exact`: the axes whose conditions hold by construction; by default all.
    - `progress`: called with a line for each round.
    - `each`: whether the error of every function shall be below the tolerance, rather than their mean.
    - `start`: where to begin; by default a few functions along each axis.
    - `largest`: the most coefficients of the finer discretisation.
    """
    with double_precision():
        functions = jax.tree.map(lambda leaf: jnp.asarray(leaf, np.float64), problem.complete(inputs))
        exact = problem.domain.names if exact is None else tuple(exact)
        return _Search(problem, functions, tolerance, exact, progress or _silent, largest, each).run(start)


class _Search:
    def __init__(
        self,
        problem: Problem,
        inputs: Mapping[str, Functions],
        tolerance: float,
        exact: Sequence[str],
        progress: Progress,
        largest: int,
        each: bool,
    ) -> None:
        self.problem, self.inputs, self.tolerance, self.exact = problem, inputs, tolerance, exact
        self.progress, self.largest = progress, largest
        self.each = each
        self.size: Callable[[np.ndarray], float] = _largest if each else _mean
        self.count = max((len(f) for f in inputs.values()), default=1)
        self.began = time.perf_counter()
        self.bandwidths, self.close = bandwidths(inputs, UNSEEN * tolerance), False
        self.kinks = find_kinks(problem, exact, inputs)
        self.smoothed = tuple(dict.fromkeys(kink.axis for kink in self.kinks))
        if self.kinks:
            # Errors fall slowly with the number of functions then, and matrices of many are badly conditioned.
            self.largest = min(largest, DIRECT)
        self.oversampling = 1.0
        self.shared = self._shares_jacobian()
        self.beyond = 0

    def run(self, start: Resolution | None) -> Resolution:
        first = FIRST.get(len(self.problem.domain), 6)
        ranks = dict(start.fine.discretisation.ranks) if start else dict.fromkeys(self.problem.domain, first)
        fine = self._solve(ranks, None)
        earlier, quadrature, tries, solved = None, np.zeros(self.count), 0, None
        for _ in range(ROUNDS):
            if not np.all(fine.solved.converged) and self._look_closer():
                fine = self._solve(dict(fine.discretisation.ranks), solved)
                continue
            if not np.all(fine.solved.converged):
                # A coarse basis may have no solution where a finer one has: twice more, a rung higher. One that is
                # finer than what was solved is beyond the solver.
                grown = self._grow(fine, dict.fromkeys(self.problem.domain, True))
                tries += 1
                if grown is None or tries > 2 or solved is not None:
                    break
                fine = self._solve(grown, fine)
                continue
            solved = fine
            tails = self._tails(fine)
            most = max(map(self.size, tails.values()))
            high = {name: self.size(tail) > max(self.tolerance, 0.2 * most) for name, tail in tails.items()}
            grown = self._grow(fine, high) or self._grow(fine, _worst(tails, self.size)) if any(high.values()) else None
            if grown is not None:
                fine = self._solve(grown, fine)
                continue
            fine, quadrature = self._check_nodes(fine)
            coarse = self._solve(self._coarser(fine), fine)
            errors = distance(coarse, fine, self.inputs)
            if self._accepted(errors, earlier, quadrature) and np.all(coarse.solved.converged):
                return self._result(coarse, fine, errors, earlier, tails, quadrature)
            # The difference is larger than what lies beyond: the axes that contribute most grow.
            grown = self._grow(fine, {name: self.size(tail) > 0.3 * most for name, tail in tails.items()})
            grown = grown or self._grow(fine, _worst(tails, self.size))
            if grown is None:
                return self._result(coarse, fine, errors, earlier, tails, quadrature)
            earlier = errors
            fine = self._solve(grown, fine)
        if solved is not None and solved is not fine:
            self.beyond = int(np.sum(~fine.solved.converged))
            fine, quadrature = self._check_nodes(solved)
        coarse = self._solve(self._coarser(fine), fine)
        return self._result(coarse, fine, distance(coarse, fine, self.inputs), earlier, self._tails(fine), quadrature)

    def _shares_jacobian(self) -> bool:
        """Whether all functions have one Jacobian: seen on a few functions along each axis."""
        few = Discretisation.of(self.problem, self.exact, dict.fromkeys(self.problem.domain, 5), self.smoothed)
        square = is_square(few, make_tests(few))
        nodes = tuple((name, 2 * rank) for name, rank in few.ranks)
        return square and bool(slope_variation(few, nodes, self.inputs, self.count) < 1e-9)

    def _accepted(self, errors: np.ndarray, earlier: np.ndarray | None, quadrature: np.ndarray) -> bool:
        """Whether the tolerance is reached: by the chosen discretisation on average, or by the finer one for each."""
        announced = (self._factor(errors, earlier) if self.each else BEYOND) * errors
        return self.size(announced + quadrature) <= self.tolerance

    def _solve(self, ranks: Mapping[str, int], guess: Level | None) -> Level:
        discretisation = Discretisation.of(self.problem, self.exact, ranks, self.smoothed)
        nodes = self._nodes(discretisation)
        level = solve_level(
            discretisation, nodes, self.inputs, self.count, guess, 1e-3 * self.tolerance, shared=self.shared
        )
        solved = level.solved
        self.progress(
            f"{' x '.join(str(r) for r in discretisation.shape)} functions, "
            f"{' x '.join(str(n) for _, n in nodes)} nodes: {solved.method}, "
            f"{int(np.sum(solved.converged))} of {self.count} functions solved, {self._seconds():.1f} s"
        )
        return level

    def _seconds(self) -> float:
        return time.perf_counter() - self.began

    def _look_closer(self) -> bool:
        """Whether nodes can see more of the inputs than they did. A lift is differentiated as often as the equation
        says, and what little is missed of an input may be most of its fourth derivative."""
        before = self.bandwidths
        if not self.close:
            self.close, self.bandwidths = True, bandwidths(self.inputs, CLOSER * UNSEEN * self.tolerance)
        return any(new.functions > old.functions for new, old in zip(self.bandwidths, before, strict=True))

    def _nodes(self, discretisation: Discretisation) -> Nodes:
        return resolving_nodes(discretisation.ranks, self.bandwidths, self.oversampling)

    def _check_nodes(self, level: Level) -> tuple[Level, np.ndarray]:
        """A level with nodes that are fine enough, and their error: what a Newton step on a grid that is half again as
        fine changes."""
        finer = tuple((name, math.ceil(FINER * n)) for name, n in level.nodes)
        change = newton_change(level.discretisation, finer, self.inputs, level.solved.coefficients)
        if np.mean(change) > 0.1 * self.tolerance and self.oversampling < 3:
            self.oversampling *= FINER
            ranks = dict(level.discretisation.ranks)
            return self._check_nodes(self._solve(ranks, level))
        return level, change

    def _coarser(self, level: Level) -> dict[str, int]:
        return {name: max(2, round(rank / FINER)) for name, rank in level.discretisation.ranks}

    def _grow(self, level: Level, high: Mapping[str, bool]) -> dict[str, int] | None:
        """The ranks of the next round: those of some axes times `FINER`; None if that is too many."""
        ranks = dict(level.discretisation.ranks)
        grown = {n: min(math.ceil(FINER * r), MOST_ALONG) if high[n] else r for n, r in ranks.items()}
        finer = Discretisation.of(self.problem, self.exact, grown)
        most = self.largest if is_square(finer, make_tests(finer)) else min(self.largest, LARGEST_DIRECT)
        return None if finer.size > most or grown == ranks or not is_solvable(finer) else grown

    def _tails(self, level: Level) -> dict[str, np.ndarray]:
        """For each axis how much of a solution, relative to it, lies beyond two thirds of its functions."""
        ours, c = level.discretisation, level.solved.coefficients
        smaller = Discretisation.of(self.problem, self.exact, self._coarser(level))
        matrices = smaller.embedding(ours)
        tails: dict[str, np.ndarray] = {}
        for n, (name, rank) in enumerate(ours.ranks):
            fields = range(len(self.problem.fields))
            identity = [[np.eye(r) for _ in fields] for _, r in ours.ranks]
            along = [
                *identity[:n],
                [np.eye(rank) - matrices[n][f] @ matrices[n][f].T for f in fields],
                *identity[n + 1 :],
            ]
            beyond = increment_sizes(level, self.inputs, apply_along(along, c, back=False))
            tails[name] = beyond / level.solved.norms
        return tails

    def _result(
        self,
        coarse: Level,
        fine: Level,
        errors: np.ndarray,
        earlier: np.ndarray | None,
        tails: Mapping[str, np.ndarray],
        quadrature: np.ndarray,
    ) -> Resolution:
        solved = coarse.solved.converged & fine.solved.converged
        errors = np.where(solved, errors, np.inf)
        reached = self._accepted(errors, earlier, quadrature)
        factor = self._factor(errors, earlier)
        return Resolution(
            coarse,
            fine,
            errors,
            factor * errors + quadrature,
            {name: float(np.mean(tail)) for name, tail in tails.items()},
            quadrature,
            self.tolerance,
            reached,
            "" if reached else self._reason(fine, tails, solved, quadrature),
            self._seconds(),
            factor,
            tuple(self.bandwidths),
            tuple(self.kinks),
            self.shared,
        )

    def _rough(self) -> list[Bandwidth]:
        """The inputs that as many functions as are looked at do not hold, by axis."""
        return [b for b in self.bandwidths if b.remainder > 0.3 * self.tolerance]

    def _factor(self, errors: np.ndarray, earlier: np.ndarray | None) -> float:
        """The error of the finer of two discretisations, relative to their difference, at most.

        If differences fall by a factor q from one comparison to the next, those still to come sum to q / (1 - q) of
        the last one: no more than it for q < 1/2, the usual case. With rough inputs (jumps, kinks) errors may fall no
        faster than functions grow in number, and a first difference says nothing else: q is 1 / `FINER` then.
        """
        least = 1 / FINER if self._rough() else 0.5
        rate = least
        if earlier is not None and np.all(np.isfinite([np.mean(errors), np.mean(earlier)])):
            rate = float(np.clip(np.mean(errors) / np.mean(earlier), least, 0.8))
        return rate / (1 - rate)

    def _reason(self, fine: Level, tails: Mapping[str, np.ndarray], solved: np.ndarray, quadrature: np.ndarray) -> str:
        if not np.all(solved):
            why = why_no_start(fine, self.inputs, int(np.argmin(solved)))
            return f"Newton's method did not converge for {int(np.sum(~solved))} of {self.count} functions{why}"
        rough = self._rough()
        told = "; ".join(
            [
                *(f"{kink}, which no smooth basis holds" for kink in self.kinks),
                *(
                    f"the input {b.input} is rough along {b.axis}: {b.functions} functions miss "
                    f"{percent(b.remainder)} of it"
                    for b in rough
                ),
            ]
        )
        if np.mean(quadrature) > self.tolerance:
            return told or f"the quadrature does not settle ({percent(float(np.mean(quadrature)))} on a finer grid)"
        worst = max(tails, key=lambda name: float(np.mean(tails[name])))
        ranks = dict(fine.discretisation.ranks)
        axis = (
            f"the axis {worst} converges slowly ({percent(float(np.mean(tails[worst])))} lies beyond "
            f"{round(ranks[worst] / FINER)} functions)"
        )
        if self.beyond:
            axis += f", and on finer bases iterations did not converge for {self.beyond} of {self.count} functions"
        return f"{told}; {axis}" if told else axis


def _worst(tails: Mapping[str, np.ndarray], size: Callable[[np.ndarray], float]) -> dict[str, bool]:
    """The one axis along which most is missing."""
    worst = max(tails, key=lambda name: size(tails[name]))
    return {name: name == worst for name in tails}


def _silent(line: str) -> None:
    """No progress is shown."""


def _mean(errors: np.ndarray) -> float:
    return float(np.mean(errors))


def _largest(errors: np.ndarray) -> float:
    return float(np.max(errors))
