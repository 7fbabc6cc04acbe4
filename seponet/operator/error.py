"""The errors of an operator's predictions, estimated and put into words."""

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float64

from .._precision import double_precision, in_precision_of, to_double
from ..calculus.collocation import Nodes
from ..discretise.bandwidth import Bandwidth, bandwidths, resolving_nodes
from ..discretise.discretisation import Discretisation
from ..discretise.newton import padded
from ..functions import Functions
from ..functions.space import take_rows
from ..nn.model import OperatorNetwork
from .calibrate import (
    SEED,
    NotCalibrated,
    base_of,
    estimate_nodes,
    larger_of,
    network_coefficients,
    start_of,
)
from .error_labels import functions_in_words
from .estimate import LARGEST, LEVELS, UNSEEN, Calibration, Estimate, larger_basis, preconditioned_residual, scaled
from .input_range import FAR, Compared, compare, score_of
from .ladder import GROWTH, STRICT, THIRTY_FOLD, Ladder, no_branch, resized
from .nodes import rounded
from .points import AnyEvaluator, make_evaluator

Inputs = Mapping[str, Functions]

AVERAGED = 32
"""Functions that Jacobians are averaged over."""


class ErrorEstimator:
    """Error estimates for the inputs of one operator.

    **Arguments:**

    - `model`, `calibration`: the operator's.
    """

    def __init__(self, model: OperatorNetwork, calibration: Calibration | None) -> None:
        self.model, self.calibration = model, calibration
        self._arrays, static = eqx.partition((model, calibration), eqx.is_array)

        @functools.partial(jax.jit, static_argnums=2)
        def compiled(arrays: Any, inputs: Inputs, fast: bool) -> tuple[Array, Array | None, Compared]:
            network, reliability = eqx.combine(arrays, static)
            seen = network.encode(inputs)
            coefficients, size = network.coefficients(seen), None
            if fast:
                size = preconditioned_residual(network, reliability, network.problem.complete(inputs), coefficients)
            return coefficients, size, compare(reliability.ranges, seen)

        self._compiled = compiled
        self._ladder: Ladder | None = None
        self._needs: dict[float, list[Bandwidth]] = {}

    def choose_level(self, level: str | None) -> str:
        """The level that is asked for, or the one that was reliable; a `ValueError` if there is none."""
        if level is not None and level not in LEVELS:
            raise ValueError(f"level must be one of {', '.join(LEVELS)}; got {level!r}")
        if self.calibration is None:
            if level == "fast":
                raise ValueError(
                    'level = "fast" needs a calibrated operator, and this one has no calibration; call calibrate(), '
                    'or take level = "solve"'
                )
            return "solve"
        return level or self.calibration.level

    def estimate(self, inputs: Inputs, count: int, level: str, memory: int, finer: bool = True) -> "Estimated":
        """The estimates of a level.

        `finer` looks at inputs far outside once more, on a quadrature that resolves them."""
        calibration = self.calibration
        with in_precision_of(self.model):
            if calibration is None:
                coefficients = network_coefficients(self.model, dict(inputs))
                nothing = np.full(count, np.nan)
                found = Estimate(self._by_newton(inputs, coefficients), nothing, nothing, nothing)
                return Estimated(found, coefficients, ())
            points = math.prod(n for _, n in calibration.nodes)
            held = calibration.sketch.dtype.itemsize * (24 * points + calibration.sketch.shape[1])
            batch = int(np.clip(memory // held, 1, count))
            parts: list[Any] = []
            for first in range(0, count, batch):
                rows = np.minimum(np.arange(first, first + batch), count - 1)
                part = dict(inputs) if batch == count else {name: f[rows] for name, f in inputs.items()}
                parts.append(self._compiled(self._arrays, part, level == "fast"))
            coefficients, sizes, compared = (
                parts[0] if len(parts) == 1 else jax.tree.map(lambda *a: jnp.concatenate(a)[:count], *parts)
            )
            compared = jax.tree.map(np.asarray, compared)
            outside = score_of(compared, count)
            if level == "solve":
                size = self._by_newton(inputs, coefficients, outside > FAR)
            else:
                size = np.asarray(sizes, np.float64)
                if finer and np.any(outside > FAR):
                    size = self.look_again(inputs, coefficients, size, np.flatnonzero(outside > FAR))
            size = np.where(np.isnan(size), np.inf, size)  # nothing is known of an answer that is no number
            return Estimated(_known(scaled(calibration.ratios(level), size, outside)), coefficients, compared)

    @functools.cached_property
    def base(self) -> Discretisation:
        """The basis that corrections start in: the operator's own, or the one that it was calibrated with."""
        own = base_of(self.model)
        if own is not None:
            return own
        if self.calibration is None:
            raise NotCalibrated(
                "this operator has no classical basis of its own (learned trunks, another decoder, or potentials) and "
                "no calibration, so nothing is known to look for its error in; call calibrate() first"
            )
        return resized(larger_basis(self.model, self.calibration), 1 / GROWTH)

    @functools.cached_property
    def larger(self) -> Discretisation:
        """The basis that errors are looked for in."""
        return larger_of(self.base) if self.calibration is None else larger_basis(self.model, self.calibration)

    @property
    def ladder(self) -> Ladder:
        """The bases that functions are corrected in, made when it is first asked for."""
        if self._ladder is None:
            base, model = self.base, self.model
            with jax.enable_x64(False):
                sample = model.problem.sample(jax.random.key(SEED), AVERAGED)
            with in_precision_of(model):
                sample = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), sample)
                coefficients = network_coefficients(model, sample)
            with double_precision():
                doubled = to_double(dict(sample))
                reliable = self.calibration is not None and self.calibration.level == "fast"
                forcing = THIRTY_FOLD if reliable else STRICT
                self._ladder = Ladder(base, doubled, self.start(doubled, coefficients), forcing)
        return self._ladder

    @property
    def unseen(self) -> float:
        """The part of an input that quadrature may miss."""
        return UNSEEN if self.calibration is None else self.calibration.unseen

    @property
    def typical(self) -> float:
        """The error of the network's answers to calibrated inputs, which their basis is at least good for; infinite if
        it is not known."""
        if self.calibration is None or not self.calibration.truths.size:
            return math.inf
        return max(float(np.median(np.asarray(self.calibration.truths))), 1e-12)

    def start(self, inputs: Inputs, coefficients: Array) -> Float64[np.ndarray, "functions fields *_"]:
        """The network's answer in the basis that corrections start in. To be called in double precision."""
        base = self.base
        needs = [] if base_of(self.model) else [rounded(need) for need in bandwidths(inputs, self.unseen)]
        return start_of(self.model, base, resolving_nodes(base.ranks, needs), inputs, coefficients)

    def needs(self, inputs: Inputs, far: np.ndarray, tolerance: float) -> list[Bandwidth]:
        """How many functions inputs need along each axis for a tolerance: as many as those that the operator was made
        for, and more if one of those that are `far` does. To be called in double precision."""
        tolerance = min(tolerance, self.unseen)
        tolerance = max(2.0 ** math.floor(math.log2(tolerance)), 1e-8)  # so that nearby ones share what is kept
        if tolerance not in self._needs:
            sample, _ = self.ladder.sample
            self._needs[tolerance] = [rounded(need) for need in bandwidths(sample, tolerance)]
        usual = self._needs[tolerance]
        if not np.any(far):
            return usual
        rows = padded(np.flatnonzero(far))
        own = bandwidths({name: f[rows] for name, f in inputs.items()}, tolerance)
        return [max(pair, key=lambda need: need.functions) for pair in zip(usual, map(rounded, own), strict=True)]

    def correction(
        self, inputs: Inputs, coefficients: Array, far: np.ndarray | None = None
    ) -> tuple[Discretisation, Float64[np.ndarray, "functions *_"], Float64[np.ndarray, " functions"]]:
        """The larger basis, the coefficients there of the prediction corrected by a Newton step, and how far that was,
        relative to the solution. Functions that are `far` from the calibrated ones get matrices of their own."""
        larger = self.larger
        with double_precision():
            doubled = to_double(dict(inputs))
            first = self.ladder.moved(self.base, larger, self.start(doubled, coefficients))
            return larger, *self.ladder.step(larger, self._nodes(larger, doubled), doubled, first, far)

    def _by_newton(
        self, inputs: Inputs, coefficients: Array, far: np.ndarray | None = None
    ) -> Float64[np.ndarray, " functions"]:
        return self.correction(inputs, coefficients, far)[2]

    def _nodes(self, larger: Discretisation, inputs: Inputs) -> Nodes:
        """Quadrature that sees these inputs, and those of the calibration."""
        with double_precision():
            needs = [rounded(need) for need in bandwidths(to_double(dict(inputs)), self.unseen)]
        nodes = estimate_nodes(larger, needs)
        if self.calibration is None:
            return nodes
        return tuple((name, max(n, m)) for (name, n), (_, m) in zip(nodes, self.calibration.nodes, strict=True))

    def look_again(
        self, inputs: Inputs, coefficients: Array, size: Float64[np.ndarray, " functions"], far: np.ndarray
    ) -> Float64[np.ndarray, " functions"]:
        """The sizes, those of functions far outside on a finer quadrature if they need one: an aliased residual is too
        small."""
        calibration, rows = self.calibration, padded(far)
        assert calibration is not None
        part = {name: f[rows] for name, f in inputs.items()}
        nodes = self._nodes(larger_basis(self.model, calibration), part)
        if nodes == calibration.nodes:
            return size
        finer = np.asarray(_residuals(self.model, calibration, part, take_rows(coefficients, rows), nodes), np.float64)
        size = size.copy()
        size[rows] = finer
        return size

    def note(self, estimated: "Estimated") -> str:
        """What a user should know about estimates, in words; empty if there is nothing to say."""
        if self.calibration is None:
            return (
                "this operator is not calibrated: the estimates are one Newton step's in a larger basis, and how far "
                "they are from the truth is not known"
            )
        scores = np.asarray(estimated.found.score)
        outside = np.flatnonzero(scores > 1)
        if not len(outside):
            return ""
        worst = np.argmax([of_input[outside] for of_input, _ in estimated.compared], axis=0)
        by_text: dict[str, list[int]] = {}
        for number, (ranges, (_, features)) in enumerate(zip(self.calibration.ranges, estimated.compared, strict=True)):
            rows = outside[worst == number]
            for row, text in zip(rows.tolist(), ranges.explain(np.asarray(features)[rows]), strict=True):
                by_text.setdefault(text, []).append(row)
        told = [f"{text} (function {functions_in_words(rows)})" for text, rows in by_text.items()]
        return (
            f"{len(outside)} of {len(scores)} inputs lie outside of what the error estimates were calibrated on, "
            f"so the upper values are no promise for them: {'; '.join(told)}"
        )


def _known(found: Estimate) -> Estimate:
    """Estimates whose upper values are infinite where nothing is known: outside, and as large as the prediction."""
    unknown = [(found.score > 1) & (upper >= LARGEST / (1 - LARGEST)) for upper in (found.upper_90, found.upper_95)]
    return found._replace(
        upper_90=np.where(unknown[0], np.inf, found.upper_90), upper_95=np.where(unknown[1], np.inf, found.upper_95)
    )


class Estimated(NamedTuple):
    """What an estimator says of some predictions.

    - `found`: the estimates, as NumPy arrays; those of an operator without a calibration have no upper values (NaN) and
        no score.
    - `coefficients`: of the predictions, which were computed on the way.
    - `compared`: the inputs with the ranges of the calibration.
    """

    found: Estimate
    coefficients: Array
    compared: Compared


def error_field(estimator: ErrorEstimator, evaluator: AnyEvaluator, inputs: Inputs, count: int | None) -> xr.Dataset:
    """Prediction minus solution on the grid of an evaluator, as far as a Newton step in the larger basis tells."""
    with in_precision_of(estimator.model):
        coefficients = network_coefficients(estimator.model, dict(inputs))
        predicted = evaluator.compute(dict(inputs), count or 1, coefficients)
    larger, corrected, _ = estimator.correction(inputs, coefficients)
    with double_precision():
        finer = make_evaluator(
            larger, no_branch, evaluator.coordinates, points=False, symbols=evaluator.symbols, memory=evaluator.memory
        )
        solution = finer.compute(to_double(dict(inputs)), count or 1, jnp.asarray(corrected))
        labelled = evaluator.label([p - s for p, s in zip(predicted, solution, strict=True)], count, inputs)
    labelled = labelled.to_dataset() if isinstance(labelled, xr.DataArray) else labelled
    return labelled.assign_attrs(long_name="estimated error: prediction minus solution")


@eqx.filter_jit
def _residuals(
    model: OperatorNetwork, calibration: Calibration, inputs: Inputs, coefficients: Array, nodes: Nodes | None
) -> Array:
    return preconditioned_residual(model, calibration, inputs, coefficients, nodes)
