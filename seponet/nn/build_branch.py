"""From a configuration to a branch, and to the sensors at which it sees the inputs.

`make_branch` makes branches for vectors of coefficients, `make_field_branch` those for a core that is a field on the
nodes of the periodic axes. Encoders take their statistics from a sample of the inputs, unless these are known.
"""

import functools
import logging
import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._program import OwnProgram
from ..calculus.model import Sensors
from ..equations.problem import Problem
from ..functions import Expansion, GaussianField, Space, SpectralField, resolve
from .branch import AbstractBranch, Branch, Constant
from .cnn import CNN
from .config import ModelConfig, choose
from .coordinate_maps import Chain
from .encoders import PCA, TRANSFORMS, AbstractEncoder, Flatten, Standardise, Transformed
from .model import sense
from .spectral_branch import FieldBranch
from .translation import Translation
from .trunks import AbstractTrunk

logger = logging.getLogger(__name__)

SAMPLES = 1000
"""Functions of each input from which statistics are taken, or products of an expansion from which they are known."""


def make_branch(
    problem: Problem,
    config: ModelConfig,
    out_size: int,
    key: PRNGKeyArray,
    sample_key: PRNGKeyArray,
    translation: Translation | None = None,
) -> tuple[AbstractBranch, Sensors]:
    """The branch of a configuration for vectors of coefficients, and its sensors.

    **Arguments:**

    - `out_size`: the number of coefficients.
    - `key`, `sample_key`: for the initial weights, and for the sample that statistics are taken from.
    - `translation`: what aligns the inputs before the branch sees them; the sample is aligned too.
    """
    if not problem.inputs:
        # The trunks of a CP decoder can absorb constant coefficients; a core has to be learned.
        trained = config.kind == "seponet" and config.decoder == "tucker"
        return Constant(out_size, key=key if trained else None), ()
    sensors = tuple((name, _sensor_counts(name, space, config)) for name, space in sorted(problem.inputs.items()))
    encoder = choose("encoder", config.encoder, ("sensors", "standardise", "pca"))
    if config.branch in ("spectral", "marching"):
        raise ValueError(f'branch = "{config.branch}" makes the core of a SepONet; got kind = {config.kind!r}')
    if choose("branch", config.branch, ("mlp", "gated", "cnn", "spectral", "marching")) == "cnn":
        return _cnn_branch(problem, sensors, out_size, key), sensors
    for name in config.transform:
        choose("an input in transform", name, tuple(problem.inputs))
    known: dict[str, np.ndarray] = {}
    if encoder == "pca" and config.sensors == "auto" and translation is None:
        for name, counts in sensors:
            space = problem.inputs[name]
            # Not their subclasses, which may draw or evaluate otherwise.
            exact = type(space) in (GaussianField, SpectralField) and name not in config.transform
            if exact and isinstance(space, Expansion):
                known[name] = _covariance_factor(space, dict(counts))
    # Values as they are need no statistics, only a shape.
    unknown = tuple((name, counts) for name, counts in sensors if name not in known)
    samples = _sample_sensor_values(problem, unknown, sample_key, SAMPLES if encoder != "sensors" else 2, translation)
    encoders = {name: _encoder(problem, config, name, np.asarray(samples[name])) for name, _ in unknown}
    encoders |= {name: _pca(config, factor, factor=True) for name, factor in known.items()}
    return join_encoders(encoders, config, out_size, key), sensors


def join_encoders(
    encoders: Mapping[str, AbstractEncoder], config: ModelConfig, out_size: int, key: PRNGKeyArray
) -> Branch:
    """The branch of a configuration, an MLP or a gated one, behind given encoders."""
    size, activation = (config.branch_width, config.branch_depth), config.branch_activation
    if config.branch == "gated":
        return Branch.gated(encoders, out_size, *size, activation, zero_last=config.zero_last, key=key)
    return Branch.mlp(encoders, out_size, *size, activation, skip=config.skip, zero_last=config.zero_last, key=key)


def make_field_branch(
    problem: Problem,
    config: ModelConfig,
    trunks: Sequence[AbstractTrunk],
    out_size: int,
    key: PRNGKeyArray,
    sample_key: PRNGKeyArray,
) -> tuple[FieldBranch, Sensors]:
    """A branch whose outputs are a field on the nodes of the periodic axes; its sensors are these nodes.

    **Arguments:**

    - `trunks`: of the model; those of periodic axes are nodal and come last.
    - `out_size`: the number of coefficients.
    - `key`, `sample_key`: for the initial weights, and for the sample that sets the inputs' scales.
    """
    counts = _nodes(problem, trunks)
    names = config.channels or tuple(problem.spaces)
    symbols = {name: problem.vocabulary.parse(name) for name in sorted(names)}
    for name, symbol in symbols.items():
        if symbol.kind != "input" or problem.spaces[symbol.name].domain.names != tuple(counts):
            raise ValueError(f"channels are given functions of {', '.join(counts) or 'periodic axes'}; got {name!r}")
    samples = problem.sample(sample_key, 64)
    values = {name: np.asarray(sense(samples[s.name], counts, s.alpha)) for name, s in symbols.items()}
    grid = tuple(counts.values())
    branch = FieldBranch(
        values,
        grid,
        out_size // math.prod(grid),
        width=config.branch_width,
        blocks=config.branch_depth,
        reach=config.reach,
        waves=config.waves,
        key=key,
    )
    return branch, tuple((name, tuple(counts.items())) for name in symbols)


def _nodes(problem: Problem, trunks: Sequence[AbstractTrunk]) -> dict[str, int]:
    """The number of nodes along each periodic axis."""
    counts: dict[str, int] = {}
    for (name, axis), trunk in zip(problem.domain.axes, trunks, strict=True):
        basis = None if trunk.classical_bases is None else trunk.classical_bases[0]
        nodal = basis is not None and basis.nodal
        if axis.periodic != nodal or (counts and not nodal):
            raise ValueError(
                'branch = "spectral" makes a field over periodic axes: it needs decoder = "tucker" and trunk = "nodal" '
                f"along them, and they come last in the domain; {name} does not fit"
            )
        if basis is not None and nodal:
            counts[name] = basis.size
    return counts


def _encoder(problem: Problem, config: ModelConfig, name: str, samples: np.ndarray) -> AbstractEncoder:
    """The encoder of one input, with the statistics of samples `[samples, *components, *sensors]`."""
    transform = config.transform.get(name)
    if transform is not None:
        samples = _transformed(name, choose(f"transform of {name}", transform, tuple(TRANSFORMS)), samples)
    if config.encoder == "sensors":
        encoder = Flatten(samples.shape[1:])
    elif config.encoder == "standardise" or not len(problem.inputs[name].domain):
        encoder = Standardise(samples)
    else:
        encoder = _pca(config, samples)
    return encoder if transform is None else Transformed(transform, encoder)


def _pca(config: ModelConfig, samples: np.ndarray, *, factor: bool = False) -> PCA:
    energy = None if config.components else 1 - config.unseen
    return PCA(samples, count=config.components, energy=energy, ridge=config.ridge, factor=factor)


def _sensor_counts(name: str, space: Space, config: ModelConfig) -> tuple[tuple[str, int], ...]:
    """The number of sensors along each axis of an input; those that were chosen are logged."""
    if isinstance(config.sensors, int):
        return tuple((axis, config.sensors) for axis in space.domain)
    choose("sensors", config.sensors, ("auto",))
    if not len(space.domain):
        return ()
    resolution = resolve(space)
    counts, error = resolution.counts, max(resolution.errors.values())
    logger.info(
        "sensors of %s: %s; interpolated between them, its functions are right to %.2g%%%s",
        name,
        ", ".join(f"{axis} {count}" for axis, count in counts.items()),
        100 * error,
        f" only, because {math.prod(counts.values())} are all that are taken; model.sensors sets more"
        if resolution.limited
        else "",
    )
    return tuple(counts.items())


def _covariance_factor(space: Expansion, counts: Mapping[str, int]) -> np.ndarray:
    """The products of an expansion at the sensors, each times its standard deviation, `[products, *sensors]`: those of
    largest variance, the thousand largest at most. They are a factor of the covariance of the sensor values."""
    flat = space.deviations.reshape(-1)
    largest = np.argsort(-flat, kind="stable")[: min(SAMPLES, np.count_nonzero(flat))]
    columns = np.unravel_index(largest, space.deviations.shape)
    points = space.sensors(counts).points
    tables = [
        basis.table(np.asarray(x, np.float64))[0].T[i] for basis, x, i in zip(space.bases, points, columns, strict=True)
    ]
    products = functools.reduce(lambda a, b: (a[:, :, None] * b[:, None]).reshape(len(largest), -1), tables)
    return (flat[largest, None] * products).reshape(-1, *counts.values())


def _sample_sensor_values(
    problem: Problem, sensors: Sensors, key: PRNGKeyArray, count: int, translation: Translation | None
) -> Mapping[str, Array]:
    """What the sensors see of a sample of inputs, aligned."""

    def draw(key: PRNGKeyArray) -> Mapping[str, Array]:
        samples = problem.sample(key, count)
        seen = {name: sense(samples[name], dict(counts)) for name, counts in sensors}
        return seen if translation is None else translation.align(seen)[0]

    return OwnProgram(draw, brief=True)(key)


def _transformed(name: str, transform: str, values: np.ndarray) -> np.ndarray:
    if np.min(values) <= 0:
        raise ValueError(
            f"transform {transform!r} needs a positive input; {name} takes values down to {np.min(values):.3g}"
        )
    return np.asarray(TRANSFORMS[transform](values))


def _cnn_branch(problem: Problem, sensors: Sensors, out_size: int, key: PRNGKeyArray) -> Branch:
    ((name, counts),) = sensors if len(sensors) == 1 else (("", ()),)
    if not counts:
        raise ValueError("the CNN branch takes exactly one input, a function; use branch='mlp' for other problems")
    space = problem.inputs[name]
    periodic = all(axis.periodic for _, axis in space.domain.axes)
    encoder = CNN(space.components, tuple(n for _, n in counts), out_size, periodic=periodic, key=key)
    return Branch({name: encoder}, Chain(()))
