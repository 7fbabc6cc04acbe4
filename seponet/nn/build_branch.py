"""From a configuration to a branch that makes vectors of coefficients; for fields see `grid_core.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._text import did_you_mean
from ..equations.problem import Problem
from .branch import Branch, Constant
from .cnn import CNN
from .coordinate_maps import Chain
from .encoders import PCA, TRANSFORMS, AbstractEncoder, Flatten, Standardise, Transformed
from .model import Sensors, sense
from .translation import Translation

if TYPE_CHECKING:
    from .config import ModelConfig

import math
from collections.abc import Sequence
from typing import Any

from ..bases.cardinal import TrigonometricCardinal
from ..calculus.potentials import Potentials, curl
from .spectral_branch import FieldBranch
from .trunks import BasisTrunk, Trunk


def choose(what: str, value: str, known: tuple[str, ...]) -> str:
    """The value, if it is one of those that are known; else an error that names the nearest."""
    if value not in known:
        hint = did_you_mean(str(value), known)
        raise ValueError(f"{what} must be one of {', '.join(known)}; got {value!r}{hint}")
    return value


def make_branch(
    problem: Problem,
    config: ModelConfig,
    out_size: int,
    key: PRNGKeyArray,
    sample_key: PRNGKeyArray,
    translation: Translation | None = None,
) -> tuple[Branch | Constant, Sensors]:
    """The branch of a configuration for vectors of coefficients, and where it sees the inputs; with a `translation` it
    sees them where that moves them to."""
    if not problem.inputs:
        trained = config.kind == "seponet" and config.decoder == "tucker"
        return Constant(out_size, key=key if trained else None), ()
    sensors = tuple(
        (name, tuple((axis, config.sensors) for axis in space.domain)) for name, space in sorted(problem.inputs.items())
    )
    encoder = choose("encoder", config.encoder, ("sensors", "standardise", "pca"))
    if config.branch == "spectral":
        raise ValueError(f'branch = "spectral" makes the core of a SepONet; got kind = {config.kind!r}')
    if choose("branch", config.branch, ("mlp", "cnn", "spectral")) == "cnn":
        return _cnn_branch(problem, sensors, out_size, key), sensors
    seen = _sample_values(problem, sensors, sample_key, 1000 if encoder != "sensors" else 2)
    if translation is not None:
        seen, _ = translation.align(seen)
    encoders: dict[str, AbstractEncoder] = {}
    for name in config.transform:
        choose("an input in transform", name, tuple(problem.inputs))
    for name, _ in sensors:
        values = np.asarray(seen[name])
        transform = config.transform.get(name)
        if transform is not None:
            values = _transformed(name, choose(f"transform of {name}", transform, tuple(TRANSFORMS)), values)
        if encoder == "sensors":
            made = Flatten(values.shape[1:])
        elif encoder == "standardise" or not len(problem.inputs[name].domain):
            made = Standardise(values)
        else:
            made = PCA(
                values, count=config.components, energy=None if config.components else 1 - 1e-8, ridge=config.ridge
            )
        encoders[name] = made if transform is None else Transformed(transform, made)
    return Branch.mlp(
        encoders,
        out_size,
        config.branch_width,
        config.branch_depth,
        config.branch_activation,
        skip=config.skip,
        zero_last=config.zero_last,
        key=key,
    ), sensors


def _sample_values(problem: Problem, sensors: Sensors, key: PRNGKeyArray, count: int) -> dict[str, Array]:
    """What the sensors see of a sample of inputs."""

    @jax.jit
    def draw(key: PRNGKeyArray) -> dict[str, Array]:
        samples = problem.sample(key, count)
        return {name: sense(samples[name], dict(counts)) for name, counts in sensors}

    return draw(key)


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


def make_potentials(problem: Problem, output: str) -> Potentials | None:
    """What the coefficients are of: None for the fields themselves, a stream function for "curl"."""
    if output == "fields":
        return None
    circles = [name for name, axis in problem.domain.axes if axis.periodic]
    if len(circles) != 2 or len(problem.fields) != 2:
        raise ValueError(
            f'output = "curl" needs two fields along two periodic axes; got the fields {", ".join(problem.fields)} '
            f"and the periodic axes {', '.join(circles) or 'none'}"
        )
    return curl(*circles)


def field_branch(
    problem: Problem,
    trunks: Sequence[Trunk],
    size: int,
    channels: tuple[str, ...],
    *,
    sample_key: PRNGKeyArray,
    **options: Any,
) -> tuple[FieldBranch, Sensors]:
    """A branch whose outputs are a field on the nodes of the periodic axes, and where it sees its inputs: there too.

    **Arguments:**

    - `problem`, `trunks`: what the model is for, and its trunks; those of periodic axes are nodal and come last.
    - `size`: the number of coefficients.
    - `channels`: inputs and derivatives of them that the branch sees; empty for all that is given.
    - `sample_key`: for the sample that sets the inputs' scales.
    - `options`: of `FieldBranch`.
    """
    counts: dict[str, int] = {}
    for (name, axis), trunk in zip(problem.domain.axes, trunks, strict=True):
        nodal = isinstance(trunk, BasisTrunk) and isinstance(trunk.bases[0], TrigonometricCardinal)
        if axis.periodic != nodal or (counts and not nodal):
            raise ValueError(
                'branch = "spectral" makes a field over periodic axes: it needs decoder = "tucker" and trunk = "nodal" '
                f"along them, and they come last in the domain; {name} does not fit"
            )
        counts |= {name: trunk.bases[0].size} if isinstance(trunk, BasisTrunk) and nodal else {}
    names = channels or tuple(problem.spaces)
    symbols = {name: problem.vocabulary.parse(name) for name in sorted(names)}
    for name, symbol in symbols.items():
        if symbol.kind != "input" or problem.spaces[symbol.name].domain.names != tuple(counts):
            raise ValueError(f"channels are given functions of {', '.join(counts) or 'periodic axes'}; got {name!r}")
    samples = problem.sample(sample_key, 64)
    values = {name: np.asarray(sense(samples[s.name], counts, s.alpha)) for name, s in symbols.items()}
    grid = tuple(counts.values())
    branch = FieldBranch(values, grid, size // math.prod(grid), **options)
    return branch, tuple((name, tuple(counts.items())) for name in symbols)
