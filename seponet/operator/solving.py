"""Solutions to a tolerance: the network's where its calibrated error allows it, corrected ones elsewhere."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Float, Float64, Int

from .._numbers import is_real
from .._precision import double_precision, in_precision_of, to_double
from .._text import percent
from ..discretise.bandwidth import Bandwidth
from ..discretise.level import Level
from ..functions import Functions
from ..functions.space import take_rows
from .calibrate import network_coefficients
from .climb import LEVELS, climb, part
from .error import ErrorEstimator
from .error_labels import functions_in_words, with_coordinates
from .estimate import of_solution
from .input_range import FAR
from .ladder import Ladder
from .points import AnyEvaluator

DONE = ("network", "corrected", "larger basis", "not reached")
"""What was done for a function: nothing, as its calibrated error is small enough; Newton's method in the operator's
basis, or in smaller ones for loose tolerances, confirmed by the next larger one; Newton's method in still larger ones;
and all of that in vain."""

DOUBLE = 1e-5
"""Below this tolerance, answers are in float64."""

NOTHING_KNOWN = "Newton's method did not converge on two levels, or their differences fall too slowly to say anything"

UNSEEN = 0.01
"""The part of the tolerance that quadrature may miss of an input: lifts are differentiated."""

MARGIN, STEEP = 3.0, 4
"""By how much the calibrated error of an input outside has to be below the tolerance: the first number times its score,
or less close to the calibrated inputs, the score to the fourth power. Errors of inputs just outside are no larger,
relative to their estimates, than those of inputs inside: of 133 functions with scores from 1 to 1.5 (Burgers, heat and
Poisson's equation) none was beyond 0.92 of what a claim allows inside."""


@dataclass(frozen=True, eq=False)
class Corrected:
    """Solutions to a tolerance, function by function.

    - `done`: what was done for each, by its place in `DONE`.
    - `errors`: relative L2 errors: calibrated upper values of the network's answers, announced ones of the others;
        infinite if nothing is known.
    - `coefficients`: the network's, of all functions.
    - `ladder`, `parts`: the bases, if there were corrections; the rows of the functions that were corrected, and their
        coefficients in one basis each.
    - `seconds`: what each has taken, an equal part of what was computed together.
    - `reason`: why a tolerance was not reached; empty if it was.
    """

    done: Int[np.ndarray, " functions"]
    errors: Float64[np.ndarray, " functions"]
    coefficients: Float[Array, "functions *_"]
    ladder: Ladder | None
    parts: list[tuple[np.ndarray, Level]]
    seconds: Float64[np.ndarray, " functions"]
    rtol: float
    reason: str

    def values(self, network: AnyEvaluator, inputs: Mapping[str, Functions]) -> list[np.ndarray]:
        """For every symbol of an evaluator of the operator, an array `[functions, *shape]`."""
        with in_precision_of(network.model):
            values = network.compute(dict(inputs), len(self.done), self.coefficients)
        if self.ladder is None or not self.parts:
            return values
        dtype = np.float64 if self.rtol < DOUBLE else values[0].dtype
        values = [np.array(value, dtype) for value in values]
        with double_precision():
            for rows, level in self.parts:
                evaluator = self.ladder.evaluators(level.discretisation).get(
                    network.symbols, network.coordinates, points=network.points, memory=network.memory
                )
                ours = to_double({name: f[rows] for name, f in inputs.items()})
                corrected = evaluator.compute(ours, len(rows), jnp.asarray(level.solved.coefficients))
                for whole, some in zip(values, corrected, strict=True):
                    whole[rows] = some
        return values

    def label(self, solution: xr.DataArray | xr.Dataset, count: int | None) -> xr.DataArray | xr.Dataset:
        """A solution with what is known about its functions, as coordinates and attributes."""
        dims = () if count is None else ("function",)
        columns = {
            "error": (self.errors, "estimated relative L2 error of each function, fields together"),
            "done": (np.asarray(DONE)[self.done], "what was done for each function"),
            "seconds": (self.seconds, "computing time of each function"),
        }
        variables = {
            name: xr.Variable(dims, value if count is not None else value[0], {"long_name": text})
            for name, (value, text) in columns.items()
        }
        labelled = with_coordinates(solution, variables)
        labelled.attrs |= {
            "rtol": self.rtol,
            "functions": len(self.done),
            "reached": int(np.sum(self.errors <= self.rtol)),
            "reason": self.reason,
            **{name.replace(" ", "_"): int(np.sum(self.done == i)) for i, name in enumerate(DONE)},
        }
        return labelled


def solve_to(
    estimator: ErrorEstimator, inputs: Mapping[str, Functions], count: int, rtol: float, memory: int
) -> Corrected:
    """Each function to a tolerance; see `Operator.solve`."""
    if not is_real(rtol) or not 0 < rtol < 1:
        raise ValueError(f"rtol is a relative L2 error between 0 and 1, for instance 1e-3; got {rtol!r:.60}")
    began = time.perf_counter()
    accepted = _accept(estimator, inputs, count, rtol, memory)
    errors, coefficients, done = accepted.errors, accepted.coefficients, np.zeros(count, int)
    seconds = np.full(count, (time.perf_counter() - began) / count)
    rest = np.flatnonzero(~accepted.enough)
    if not len(rest):
        return Corrected(done, errors, coefficients, None, [], seconds, rtol, "")
    began = time.perf_counter()
    ladder = estimator.ladder
    with double_precision():
        functions = to_double({name: f[rest] for name, f in inputs.items()})
        needs = estimator.needs(functions, accepted.far[rest], UNSEEN * rtol)
        start = _finite(estimator.start(functions, take_rows(coefficients, rest)))
        prepared = (time.perf_counter() - began) / len(rest)
        levels = range(ladder.lowest(rtol / estimator.typical), LEVELS)
        climbed = climb(ladder, needs, functions, start, rtol, accepted.far[rest], levels)
    reached = climbed.errors <= rtol
    # A correction that is worth less than the network's own answer is left out; if nothing is known of both, it is not.
    better = reached | (climbed.errors <= errors[rest])
    parts = [(rest[rows[better[rows]]], part(level, better[rows])) for rows, level in climbed.parts]
    parts = [(rows, level) for rows, level in parts if len(rows)]
    done[rest] = np.where(reached, np.where(climbed.steps > 1, 2, 1), 3)
    errors[rest] = np.where(better, climbed.errors, np.maximum(errors[rest], rtol * (1 + 1e-9)))
    seconds[rest] += climbed.seconds + prepared
    reason = "" if np.all(reached) else _reason(rest[~reached], climbed.errors[~reached], needs, rtol)
    return Corrected(done, errors, coefficients, ladder, parts, seconds, rtol, reason)


def _finite(start: Float64[np.ndarray, "functions *_"]) -> Float64[np.ndarray, "functions *_"]:
    """Where to start from: the network's answers, and the lift where there is none, far from what it was trained on."""
    known = np.all(np.isfinite(start), axis=tuple(range(1, start.ndim)), keepdims=True)
    return np.where(known, start, 0.0)


class _Accepted(NamedTuple):
    """The network's answers: upper values of their errors, whether these are enough, which inputs are far outside of
    the calibration, and the coefficients."""

    errors: Float64[np.ndarray, " functions"]
    enough: Bool[np.ndarray, " functions"]
    far: Bool[np.ndarray, " functions"]
    coefficients: Float[Array, "functions *_"]


def _accept(
    estimator: ErrorEstimator, inputs: Mapping[str, Functions], count: int, rtol: float, memory: int
) -> _Accepted:
    calibration = estimator.calibration
    if calibration is None:
        with in_precision_of(estimator.model):
            coefficients = network_coefficients(estimator.model, dict(inputs))
        unknown = np.ones(count, bool)
        return _Accepted(np.full(count, np.inf), ~unknown, unknown, coefficients)
    found, coefficients, _ = estimator.estimate(inputs, count, "fast", memory, finer=False)
    ratios, score = calibration.fast, np.asarray(found.score)
    size, far = np.asarray(found.error) / ratios.median, score > FAR
    # More than 95% of what is claimed shall hold.
    _, upper_95, sure = ratios.factors
    margin = sure * margin_of(score)
    again = np.flatnonzero(far & (margin * size <= rtol))
    if len(again):
        with in_precision_of(estimator.model):
            size = estimator.look_again(inputs, coefficients, size, again)
    certain, usual = (np.asarray(of_solution(factor * size, score)) for factor in (margin, upper_95))
    return _Accepted(np.where(score > 1, certain, usual), certain <= rtol, far, coefficients)


def margin_of(score: Float64[np.ndarray, " functions"]) -> Float64[np.ndarray, " functions"]:
    """By how much the calibrated error of an input has to be below the tolerance: the farther outside, the more."""
    return np.where(score > 1, np.minimum(score**STEEP, MARGIN * score), 1.0)


def _reason(rows: np.ndarray, errors: np.ndarray, needs: list[Bandwidth], rtol: float) -> str:
    rough = [need for need in needs if need.remainder > 0.3 * rtol]
    unknown = int(np.sum(~np.isfinite(errors)))
    told = [
        *(f"the input {n.input} is rough along {n.axis}: {percent(n.remainder)} of it is not resolved" for n in rough),
        *([f"for {unknown} of them {NOTHING_KNOWN}"] if unknown else []),
    ]
    if unknown < len(rows):
        told.append("the differences of levels fall too slowly for the largest basis that is tried")
    return f"functions {functions_in_words(rows.tolist())}: {'; '.join(told)}"
