"""Solutions to a tolerance: the network's where its calibrated error allows it, corrected ones elsewhere."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float64, Int

from .._numbers import is_real
from .._precision import double_precision, in_precision_of
from .._text import percent
from ..discretise.bandwidth import Bandwidth, bandwidths, resolving_nodes
from ..discretise.level import Level
from ..functions import Functions
from .calibrate import network_coefficients, start_of
from .error import ErrorEstimator, functions_in_words, no_branch
from .gauss_newton import to_double
from .ladder import Ladder, climb, part
from .nodes import TOLERANCE, rounded
from .points import AnyEvaluator, make_evaluator

logger = logging.getLogger(__name__)

DONE = ("network", "corrected", "larger basis", "not reached")
"""What was done for a function: nothing, as its calibrated error is small enough; Newton's method in the operator's
basis, confirmed by the next larger one; Newton's method in still larger ones; and all of that in vain."""

MARGIN = 3.0
"""By how much the calibrated error of an input outside, times its score, has to be below the tolerance."""


@dataclass(frozen=True, eq=False)
class Corrected:
    """Solutions to a tolerance, function by function.

    - `done`: what was done for each, by its place in `DONE`.
    - `errors`: relative L2 errors: calibrated upper values of the network's answers, announced ones of the others;
        infinite if nothing is known.
    - `parts`: the rows of the functions that were corrected, and their coefficients in one discretisation each.
    - `seconds`: what each has taken, an equal part of what was computed together.
    - `reason`: why a tolerance was not reached; empty if it was.
    """

    done: Int[np.ndarray, " functions"]
    errors: Float64[np.ndarray, " functions"]
    parts: list[tuple[np.ndarray, Level]]
    seconds: Float64[np.ndarray, " functions"]
    rtol: float
    reason: str

    def values(self, network: AnyEvaluator, inputs: Mapping[str, Functions]) -> list[np.ndarray]:
        """For every symbol of an evaluator of the operator, an array `[functions, *shape]`."""
        total = len(self.done)
        kept = np.setdiff1d(np.arange(total), np.concatenate([rows for rows, _ in self.parts] or [[]]).astype(int))
        shape = (total, *network.where.shape)
        double = bool(self.parts) or jax.config.read("jax_enable_x64")
        values = [np.empty(shape, np.float64 if double else np.float32) for _ in network.symbols]
        if len(kept):
            with in_precision_of(network.model):
                ours = inputs if len(kept) == total else {name: f[kept] for name, f in inputs.items()}
                _fill(values, kept, network.compute(dict(ours), len(kept)))
        with double_precision():
            for rows, level in self.parts:
                evaluator = make_evaluator(
                    level.discretisation,
                    no_branch,
                    network.coordinates,
                    points=network.points,
                    symbols=network.symbols,
                    memory=network.memory,
                )
                ours = to_double({name: f[rows] for name, f in inputs.items()})
                _fill(values, rows, evaluator.compute(ours, len(rows), jnp.asarray(level.solved.coefficients)))
        return values

    def label(self, solution: xr.DataArray | xr.Dataset, count: int | None) -> xr.DataArray | xr.Dataset:
        """A solution with what is known about its functions, as coordinates and attributes."""
        dims = () if count is None else ("function",)
        columns = {
            "error": (self.errors, "estimated relative L2 error of each function, fields together"),
            "done": (np.asarray(DONE)[self.done], "what was done for each function"),
            "seconds": (self.seconds, "computing time of each function"),
        }
        labelled = solution.assign_coords(
            {n: (dims, v if count is not None else v[0], {"long_name": text}) for n, (v, text) in columns.items()}
        )
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
    errors, accepted = _accept(estimator, inputs, count, rtol, memory)
    done = np.zeros(count, int)
    seconds = np.full(count, (time.perf_counter() - began) / count)
    rest = np.flatnonzero(~accepted)
    if not len(rest):
        return Corrected(done, errors, [], seconds, rtol, "")
    began = time.perf_counter()
    base, model = estimator.base(), estimator.model
    with in_precision_of(model):
        coefficients = network_coefficients(model, {name: f[rest] for name, f in inputs.items()})
    with double_precision():
        functions = to_double({name: f[rest] for name, f in inputs.items()})
        needs = [rounded(need) for need in bandwidths(functions, min(TOLERANCE, 0.01 * rtol))]
        start = start_of(model, base, resolving_nodes(base.ranks, needs), functions, coefficients)
        prepared = (time.perf_counter() - began) / len(rest)
        climbed = climb(Ladder(base, needs), functions, start, rtol)
    reached = climbed.errors <= rtol
    # A correction that is worth less than the network's own answer is left out.
    better = reached | (climbed.errors < errors[rest])
    parts = [(rest[rows[better[rows]]], part(level, better[rows])) for rows, level in climbed.parts]
    done[rest] = np.where(reached, np.where(climbed.steps > 1, 2, 1), 3)
    errors[rest] = np.where(better, climbed.errors, np.maximum(errors[rest], rtol * (1 + 1e-9)))
    seconds[rest] += climbed.seconds + prepared
    reason = "" if np.all(reached) else _reason(rest[~reached], climbed.errors[~reached], needs, rtol)
    return Corrected(done, errors, [(rows, level) for rows, level in parts if len(rows)], seconds, rtol, reason)


def _accept(
    estimator: ErrorEstimator, inputs: Mapping[str, Functions], count: int, rtol: float, memory: int
) -> tuple[np.ndarray, np.ndarray]:
    """The upper values of the network's errors, and where they are enough."""
    calibration = estimator.calibration
    if calibration is None:
        return np.full(count, np.inf), np.zeros(count, bool)
    found, _ = estimator.estimate(inputs, count, "fast", memory)
    inside = np.asarray(found.score) <= 1
    # More than 95% of what is claimed shall hold, and an input outside needs a margin that grows with the distance.
    certain = np.asarray(found.error) * calibration.fast.certain / calibration.fast.median
    certain = certain * np.where(inside, 1.0, MARGIN * np.asarray(found.score))
    return np.where(inside, np.asarray(found.upper_95), certain), certain <= rtol


def _reason(rows: np.ndarray, errors: np.ndarray, needs: list[Bandwidth], rtol: float) -> str:
    rough = [need for need in needs if need.remainder > 0.3 * rtol]
    unknown = int(np.sum(~np.isfinite(errors)))
    told = [
        *(f"the input {n.input} is rough along {n.axis}: {percent(n.remainder)} of it is not resolved" for n in rough),
        *([f"for {unknown} of them Newton's method did not converge on two levels"] if unknown else []),
    ]
    if unknown < len(rows):
        told.append("the differences of levels fall too slowly for the largest basis that is tried")
    return f"functions {functions_in_words(rows.tolist())}: {'; '.join(told)}"


def _fill(values: list[np.ndarray], rows: np.ndarray, computed: list[np.ndarray]) -> None:
    for whole, some in zip(values, computed, strict=True):
        whole[rows] = some
