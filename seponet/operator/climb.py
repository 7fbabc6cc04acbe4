r"""Correction to a tolerance: Newton's method in the basis of an operator (in smaller ones if the tolerance is loose),
then in larger ones, level by level.

An answer is accepted on the difference of two levels only. A residual that is small in one basis says nothing about
what lies outside of it: a front that no function of the basis resolves leaves hardly a trace in it.

If differences fall by a factor q from level to level, all that are still to come sum to q / (1 - q) of the last one.
That is what the finer level is announced with. q is the larger one of two ratios: of the last two differences, as soon
as there are two, and of what the finest solution has beyond each of the two levels below it.
"""

import itertools
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64, Int

from .._text import show_duration
from ..calculus.kinks import BLURRED
from ..discretise.bandwidth import Bandwidth
from ..discretise.level import Level, coefficient_norms, distance
from ..discretise.newton import Solved, rows_of
from ..functions import Functions
from .ladder import GROWTH, Ladder, is_checked, resized

logger = logging.getLogger(__name__)

LEVELS, FAILURES = 5, 2
"""Levels, at most, and those in a row on which Newton's method may fail before a function is given up: the next one
would take several times as long."""

PATIENCE = 5.0
"""Seconds of silence, at most, before each level says what it did."""

UNKNOWN, SLOWEST = 2.0, 0.9
"""What a difference is multiplied by if no rate is known; and the rate above which differences say nothing."""

COARSE = 2.0
"""What differences of levels below the basis are multiplied by. For functions that are far they are no answer: of 24
claims of 20% for Darcy's equation with inputs three times as large, one was false (`benchmarks/README.md`)."""

SMALL = 0.05
"""The part of the tolerance below which the rate of differences is that of rounding and iterations; no larger one than
`SLOWEST` is believed then."""


@dataclass(frozen=True)
class Climbed:
    """Corrected functions.

    - `parts`: the rows of some functions, and the level that they have reached; every function is in one of them.
    - `errors`: the announced relative error of each; infinite if it is not known.
    - `steps`: how many levels each has climbed beyond the first.
    - `seconds`: what each has taken, an equal part of what was computed together.
    """

    parts: Sequence[tuple[Int[np.ndarray, " _"], Level]]
    errors: Float64[np.ndarray, " functions"]
    steps: Int[np.ndarray, " functions"]
    seconds: Float64[np.ndarray, " functions"]


def climb(
    ladder: Ladder,
    needs: Sequence[Bandwidth],
    inputs: Mapping[str, Functions],
    start: Float64[np.ndarray, "functions fields *_"],
    rtol: float,
    far: Bool[np.ndarray, " functions"] | None = None,
    levels: range = range(LEVELS),
) -> Climbed:
    """Each function corrected until its announced error is below a tolerance, or as far as the ladder goes. To be
    called in double precision.

    **Arguments:**

    - `needs`: how many functions the inputs need along each axis, for the quadrature.
    - `inputs`: functions by name, derived ones included, in float64.
    - `start`: coefficients in the basis of the ladder.
    - `far`: which functions are unlike those that the ladder was made with. Iterations on them are checked; where they
        were wrong on a level that can be checked, they are not believed on one that can't.
    - `levels`: those to climb, the first ones perhaps below the ladder's basis, with negative numbers.
    """
    total = len(start)
    far = np.zeros(total, bool) if far is None else far
    believed = np.ones(total, bool)
    errors, differences = np.full(total, np.inf), np.full(total, np.inf)
    steps, failures, seconds = np.zeros(total, int), np.zeros(total, int), np.zeros(total)
    started = time.perf_counter()
    parts: list[tuple[np.ndarray, Level]] = []
    active, below, best = np.arange(total), None, _given(ladder, start)
    for level in levels:
        discretisation = ladder.discretisation(level)
        if discretisation is None or not len(active):
            break
        began = time.perf_counter()
        own = dict(inputs) if len(active) == total else {name: f[active] for name, f in inputs.items()}
        guess = ladder.moved(best.discretisation, discretisation, best.solved.coefficients)
        # What no continuation has reached on one level, none reaches on the next. Below the basis none is tried, and
        # functions that are far are not checked: there they get a guess, and no answer.
        led, doubted = (of & (level >= 0) for of in (failures[active] == 0, far[active]))
        here, agreed = ladder.solve(discretisation, needs, own, guess, rtol, doubted, led)
        believed[active] &= agreed
        if not is_checked(discretisation):
            here = replace(here, solved=replace(here.solved, converged=here.solved.converged & believed[active]))
        reached = np.zeros(len(active), bool)
        if below is not None:
            both = here.solved.converged & below.solved.converged
            apart = np.where(both, _apart(ladder, below, here, own), np.inf)
            rates = np.fmax(_ratio(apart, differences[active]), _tails(ladder, level, below, here))
            left = np.where(here.solved.converged, here.solved.change, np.inf)
            left = left + (BLURRED if discretisation.smoothed else 0.0)
            factors = _factors(np.where(apart <= SMALL * rtol, np.fmin(rates, SLOWEST), rates))
            announced = (COARSE if level < 0 else 1.0) * factors * apart + left
            differences[active], errors[active], steps[active] = apart, announced, level
            reached = (announced <= rtol) & ((level >= 0) | ~far[active])
            parts.append((active[reached], part(here, reached)))
        seconds[active] += (time.perf_counter() - began) / len(active)
        # A basis that is too coarse may have no solution where the next one has, which starts from the same guess.
        known = here.solved.converged.reshape(-1, *(1,) * (guess.ndim - 1))
        kept = replace(here.solved, coefficients=np.where(known, here.solved.coefficients, guess))
        failures[active] = np.where(here.solved.converged | (level < 0), 0, failures[active] + 1)
        hopeless = ~reached & (failures[active] >= FAILURES)
        errors[active[hopeless]] = np.inf
        parts.append((active[hopeless], part(replace(here, solved=kept), hopeless)))
        if time.perf_counter() - started > PATIENCE:
            _tell(here, reached, hopeless, time.perf_counter() - began)
        rest = ~reached & ~hopeless
        best = _refined(ladder, best, here, kept, guess) if level < 0 else replace(here, solved=kept)
        below, best = part(here, rest), part(best, rest)
        active = active[rest]
    if len(active):
        parts.append((active, best))
        errors[active] = np.where(best.solved.converged, errors[active], np.inf)
    return Climbed([(rows, of_rows) for rows, of_rows in parts if len(rows)], errors, steps, seconds)


def _tell(level: Level, reached: np.ndarray, hopeless: np.ndarray, seconds: float) -> None:
    sizes = ", ".join(f"{name} {rank}" for name, rank in level.discretisation.ranks)
    failed = f", {np.sum(hopeless)} given up" if np.any(hopeless) else ""
    logger.info(
        "%d functions corrected with %s basis functions in %s: %d reached%s",
        len(reached),
        sizes,
        show_duration(seconds),
        np.sum(reached),
        failed,
    )


def distances_from(
    ladder: Ladder,
    climbed: Climbed,
    inputs: Mapping[str, Functions],
    start: Float64[np.ndarray, "functions fields *_"],
) -> Float64[np.ndarray, " functions"]:
    """How far a start was from what was climbed to, relative to that: its error. Infinite if that is not known. To be
    called in double precision."""
    moved = np.full(len(start), np.inf)
    for rows, level in climbed.parts:
        own = {name: f[rows] for name, f in inputs.items()}
        moved[rows] = np.where(level.solved.converged, _apart(ladder, _given(ladder, start[rows]), level, own), np.inf)
    return moved


def _refined(ladder: Ladder, best: Level, here: Level, solved: Solved, guess: np.ndarray) -> Level:
    """Coefficients in the ladder's basis after a correction on a level below it: what that level does not have is
    kept, which a network knows better than nothing."""
    gained = ladder.moved(here.discretisation, ladder.base, solved.coefficients - guess)
    return replace(best, solved=replace(solved, coefficients=best.solved.coefficients + gained))


def _apart(ladder: Ladder, below: Level, here: Level, inputs: Mapping[str, Functions]) -> np.ndarray:
    """The distances of two levels, relative to the finer one."""
    if not len(here.solved.coefficients):
        return np.zeros(0)
    if here.discretisation.smoothed or here.discretisation.problem.chart is not None:
        return distance(below, here, inputs)
    across = ladder.moved(below.discretisation, here.discretisation, below.solved.coefficients)
    with np.errstate(all="ignore"):
        return coefficient_norms(across - here.solved.coefficients) / np.maximum(here.solved.norms, 1e-300)


def _tails(ladder: Ladder, level: int, below: Level, here: Level) -> Float64[np.ndarray, " functions"]:
    """How much the solutions have beyond the level below, relative to what that has beyond the one below it; NaN where
    it is not known."""
    lower = resized(ladder.base, GROWTH ** (level - 2))
    if lower.ranks == below.discretisation.ranks:
        return np.full(len(here.solved.coefficients), np.nan)
    once = ladder.moved(here.discretisation, below.discretisation, here.solved.coefficients)
    twice = ladder.moved(below.discretisation, lower, once)
    # The bases are orthonormal and nested, so squares of parts are differences of squares.
    squares = [coefficient_norms(c) ** 2 for c in (here.solved.coefficients, once, twice)]
    with np.errstate(all="ignore"):
        beyond, before = (np.sqrt(np.maximum(a - b, 0.0)) for a, b in itertools.pairwise(squares))
        return beyond / np.maximum(before, 1e-300)


def _ratio(
    difference: Float64[np.ndarray, " functions"], earlier: Float64[np.ndarray, " functions"]
) -> Float64[np.ndarray, " functions"]:
    """Of two differences; NaN where one of them is not known."""
    known = np.isfinite(earlier) & np.isfinite(difference)
    return np.where(known, difference / np.where(known, np.maximum(earlier, 1e-300), 1.0), np.nan)


def _factors(rates: Float64[np.ndarray, " functions"]) -> Float64[np.ndarray, " functions"]:
    """The error of the finer of two levels, relative to their difference, at most."""
    rates = np.maximum(rates, 0.5)
    with np.errstate(all="ignore"):
        factors = np.where(rates <= SLOWEST, rates / (1 - np.minimum(rates, SLOWEST)), np.inf)
    return np.where(np.isnan(rates), UNKNOWN, factors)


def _given(ladder: Ladder, start: np.ndarray) -> Level:
    """Coefficients that were not solved for, as a level."""
    total = len(start)
    solved = Solved(start, np.ones(total, bool), np.zeros(total), np.ones(total), "none")
    return Level(ladder.base, (), solved)


def part(level: Level, rows: np.ndarray) -> Level:
    """A level with some of its functions."""
    return replace(level, solved=rows_of(level.solved, rows))
