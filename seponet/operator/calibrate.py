"""Calibration: how far error estimates are from the truth, measured on fresh inputs that are solved for it."""

import math
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from .._precision import double_precision, in_precision_of, to_double
from .._program import compiled_briefly
from .._text import percent
from ..calculus.collocation import Nodes
from ..discretise.bandwidth import Bandwidth, band_along, bandwidths, resolving_nodes
from ..discretise.discretisation import Discretisation
from ..discretise.preconditioner import Preconditioner
from ..discretise.resolution import resolve
from ..discretise.tested import TestedResiduals
from ..functions import Functions
from ..nn.model import OperatorNetwork
from .climb import LEVELS, climb, distances_from
from .estimate import UNSEEN, Calibration, Ratios, preconditioned_residual
from .input_range import SAMPLE, input_ranges
from .ladder import GROWTH, Ladder, is_possible, resized
from .nodes import rounded
from .projection import project

FUNCTIONS, FEWEST, FIRST = 50, 20, 8
"""How many functions are solved, how many of them have to be, and how many are tried first: if none of these can be,
that is it."""

SEED = 7_000_003
"""The key of all inputs: training and test sets have other ones."""

ROWS = 128
"""Rows of the random matrix: lengths are kept to 6%."""

SHARPER, ALIASED = 1e-5, 0.1
"""The part of an input that quadrature may miss where that changes estimates by more than the second number: a lift is
differentiated as often as the equation says, and what little is missed of an input may be all of its fourth
derivative."""

TRUTH = 0.1
"""The accuracy of solutions, relative to the errors that are measured against them."""

RESOLUTION = 1e-3
"""The accuracy of the first basis for a model that has none of its own."""

COARSE, FINER = 0.4, 0.3
"""If truths are less than this part of the estimates, or than `RESOLUTION`, that basis is too coarse; and the accuracy
of the next one, as a part of the network's error, or of that."""

LARGEST, WIDEST = 8000, 16_000
"""Coefficients of the larger bases that functions are solved in, seconds for fifty; and of the one that errors are
looked for in, which is worth more: within the basis of a network its error may be a hundredth of what it is."""

VAGUE = 2.0
"""How many times the distance from a solution its own announced error may be. Both count then."""

RELIABLE = 2.5
"""The fast level is reliable if the 95% quantile of truth / estimate is at most so many times their median."""


class NotCalibrated(ValueError):
    """An operator whose error can't be calibrated, with the reason."""


def calibrate(model: OperatorNetwork, functions: int = FUNCTIONS) -> Calibration:
    """The calibration of a trained model; a `NotCalibrated` says why there is none.

    **Arguments:**

    - `functions`: how many inputs are drawn and solved.
    """
    problem = model.problem
    if not problem.inputs:
        raise NotCalibrated(f"{type(problem).__name__} has no inputs, so there is only one function to calibrate on")
    if functions < FEWEST:
        raise NotCalibrated(f"a calibration needs at least {FEWEST} functions; got {functions}")
    if model.coefficient_shape()[0] != len(problem.fields):
        raise NotCalibrated("its fields are derivatives of potentials, which the library's own solver does not have")
    samples, own = _samples(model, functions), base_of(model)
    found = _calibrate_in(model, own or _resolved(model, samples[0], RESOLUTION), samples, functions)
    error = float(np.median(np.asarray(found.truths)))
    if own is not None or (found.solve.median >= COARSE and error >= RESOLUTION):
        return found
    # The basis is no better than the network: what is seen, or found to be true, is the error of the basis.
    finer = _resolved(model, samples[0], FINER * min(error, RESOLUTION))
    return _calibrate_in(model, finer, samples, functions)


def _samples(model: OperatorNetwork, functions: int) -> list[dict[str, Functions]]:
    """The functions to solve, and two batches to see what inputs look like."""
    keys = jax.random.split(jax.random.key(SEED), 3)
    with jax.enable_x64(False):
        samples = [model.problem.sample(key, n) for key, n in zip(keys, (functions, SAMPLE, SAMPLE), strict=True)]
    with in_precision_of(model):
        return [jax.tree.map(lambda leaf: jnp.asarray(leaf, float), sample) for sample in samples]


def _calibrate_in(
    model: OperatorNetwork,
    base: Discretisation,
    samples: Sequence[Mapping[str, Functions]],
    functions: int,
    unseen: float = UNSEEN,
) -> Calibration:
    with in_precision_of(model):
        inputs, seen, others = samples[0], *(model.encode(sample) for sample in samples[1:])
        coefficients = network_coefficients(model, inputs)
        ranges = input_ranges(model, seen, others)
    exact_inputs = _doubled(inputs)
    larger = larger_of(base)
    with double_precision():
        needs, sharper = ([rounded(n) for n in bandwidths(exact_inputs, part)] for part in (unseen, SHARPER))
        nodes = estimate_nodes(larger, needs)
        start = start_of(model, base, resolving_nodes(base.ranks, needs), exact_inputs, coefficients)
        ladder = Ladder(base, exact_inputs, start, largest=max(LARGEST, larger.size), brief=True)
        sketch = _sketch(larger, nodes, exact_inputs, ladder.preconditioner(larger, nodes))
        _, slow = ladder.step(larger, nodes, exact_inputs, ladder.moved(base, larger, start))
    missing = Ratios(1.0, 1.0, 1.0, 1.0, 1.0)
    with in_precision_of(model):
        dtype = coefficients.dtype
        draft = Calibration(
            larger.ranks,
            larger.smoothed,
            nodes,
            jnp.asarray(sketch, dtype),
            missing,
            missing,
            "fast",
            ranges,
            jnp.zeros(0, dtype),
            jnp.zeros((2, 0), dtype),
            functions,
            unseen,
        )
        residual = compiled_briefly(preconditioned_residual)
        fast = np.asarray(residual(model, draft, inputs, coefficients), np.float64)
        finer = estimate_nodes(larger, sharper)
        if unseen > SHARPER and finer != nodes:
            again = np.asarray(residual(model, draft, inputs, coefficients, finer), np.float64)
            if not np.median(np.abs(again - fast)) <= ALIASED * np.median(again):
                return _calibrate_in(model, base, samples, functions, SHARPER)
    with double_precision():
        finite = slow[np.isfinite(slow)]
        rtol = TRUTH * float(np.clip(np.median(finite) if len(finite) else 1e-2, 1e-7, 0.1))
        truths, levels = np.full(functions, np.nan), None
        for rows in (slice(0, FIRST), slice(FIRST, functions)):
            part = {name: f[rows] for name, f in exact_inputs.items()}
            levels = _levels(ladder, needs, part, start[rows]) if levels is None else levels
            truths[rows] = _truths(ladder, needs, part, start[rows], rtol, levels)
            # If none of the first can be solved, the others would take minutes to say the same.
            if not np.any(np.isfinite(truths)):
                break
    usable = np.isfinite(truths) & np.isfinite(fast) & np.isfinite(slow)
    if np.sum(usable) < FEWEST:
        tried = functions if np.any(usable) else FIRST
        raise NotCalibrated(
            f"only {int(np.sum(usable))} of {tried} functions could be solved to a part of the network's error "
            f"(about {percent(float(np.median(slow)))}), and {FEWEST} are needed"
        )
    truths, fast, slow = truths[usable], fast[usable], slow[usable]
    of_fast, of_slow = Ratios.of(truths, fast), Ratios.of(truths, slow)
    level = reliable_level(of_fast, of_slow)
    return Calibration(
        draft.ranks,
        draft.smoothed,
        nodes,
        draft.sketch,
        of_fast,
        of_slow,
        level,
        ranges,
        jnp.asarray(truths, dtype),
        jnp.asarray(np.stack([fast, slow]), dtype),
        functions,
        unseen,
    )


def _levels(
    ladder: Ladder,
    needs: Sequence[Bandwidth],
    inputs: Mapping[str, Functions],
    start: Float64[np.ndarray, "functions fields *_"],
) -> range:
    """The levels that functions are solved on: those above the basis, which say what it lacks. Where there is none that
    can be solved on, the basis is compared with the one below it."""
    above = ladder.discretisation(1)
    if above is not None and ladder.is_reliable(above, needs, inputs, start):
        return range(LEVELS)
    return range(ladder.lowest(math.inf, 1), 1)


def _truths(
    ladder: Ladder,
    needs: Sequence[Bandwidth],
    inputs: Mapping[str, Functions],
    start: Float64[np.ndarray, "functions fields *_"],
    rtol: float,
    levels: range,
) -> Float64[np.ndarray, " functions"]:
    """The errors of the network's answers, by solving; NaN where solutions are no better than these."""
    climbed = climb(ladder, needs, inputs, start, rtol, levels=levels)
    moved = distances_from(ladder, climbed, inputs, start)
    return np.where(climbed.errors <= VAGUE * moved, np.hypot(moved, climbed.errors), np.nan)


def reliable_level(fast: Ratios, slow: Ratios) -> str:
    """The level to estimate errors at: the fast one if it is reliable, or no worse than the other."""
    loose, exact = (ratios.upper_95 / ratios.median for ratios in (fast, slow))
    return "fast" if loose <= RELIABLE or loose <= exact else "solve"


def estimate_nodes(larger: Discretisation, needs: Sequence[Bandwidth]) -> Nodes:
    """The quadrature of estimates: products of two functions of the operator's basis and one of the larger basis are
    integrated exactly, and no more."""
    nodes: list[tuple[str, int]] = []
    for name, rank in larger.ranks:
        band = band_along(name, needs, larger.ranks)
        nodes.append((name, math.ceil(max(1.2 * rank + 2, 0.75 * (rank + band)))))
    return tuple(nodes)


def base_of(model: OperatorNetwork) -> Discretisation | None:
    """The discretisation with the trial functions of a model; None if it has others."""
    discretisation = model.discretisation
    return discretisation if discretisation is not None and is_possible(discretisation) else None


def larger_of(base: Discretisation) -> Discretisation:
    """The basis that errors are looked for in; with `GROWTH` times as many functions along every axis, or fewer if that
    can't be solved in."""
    for factor in (GROWTH, 1.25):
        larger = resized(base, factor)
        if is_possible(larger) and larger.size <= WIDEST:
            return larger
    return base


def start_of(
    model: OperatorNetwork,
    base: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Functions],
    coefficients: Float[Array, "functions *_"],
) -> Float64[np.ndarray, "functions fields *_"]:
    """The network's answer in a basis: its own coefficients, or those of the nearest functions. To be called in double
    precision."""
    own = model.discretisation
    if own is not None and (own.ranks, own.exact) == (base.ranks, base.exact):
        return np.asarray(coefficients, np.float64)
    return project(to_double(model), base, nodes, inputs, to_double(coefficients))


@eqx.filter_jit
def network_coefficients(model: OperatorNetwork, inputs: Mapping[str, Functions]) -> Float[Array, "functions *_"]:
    """The coefficients that the branch predicts."""
    return model.coefficients(model.encode(inputs))


def _resolved(model: OperatorNetwork, inputs: Mapping[str, Functions], tolerance: float) -> Discretisation:
    """A first basis for a model whose basis functions are no classical ones: what its problem needs."""
    problem = model.problem
    few = {name: f[:8] for name, f in _doubled(inputs).items()}
    try:
        resolution = resolve(problem, few, tolerance, exact=model.exact, largest=LARGEST)
    except ValueError as error:
        raise NotCalibrated(f"the library's own solver can't be used: {error}") from None
    if not resolution.mean < 10 * RESOLUTION:
        raise NotCalibrated(f"the library's own solver does not solve its functions: {resolution.reason}")
    return resolution.coarse.discretisation


def _sketch(
    larger: Discretisation, nodes: Nodes, inputs: Mapping[str, Functions], preconditioner: Preconditioner
) -> Float64[np.ndarray, "k rows"]:
    """S P^-1 with the averaged Jacobian P."""
    tested = TestedResiduals(larger, nodes, {name: f[:1] for name, f in inputs.items()}, 1)
    size, rows = larger.size, min(ROWS, larger.size)
    random = np.eye(size)
    if size > rows:
        random = np.random.default_rng(SEED).standard_normal((rows, size)) / math.sqrt(rows)
    pull = jax.linear_transpose(lambda g: preconditioner(tested, g), jnp.zeros((rows, tested.rows)))
    (sketch,) = pull(jnp.asarray(random).reshape(rows, *larger.coefficient_shape()))
    return np.asarray(sketch)


def _doubled(inputs: Mapping[str, Functions]) -> dict[str, Functions]:
    with double_precision():
        return to_double(dict(inputs))
