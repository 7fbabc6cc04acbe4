"""From a problem and a configuration to a model."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from ..basis import Chebyshev, Fourier, Legendre, Orthonormal, Sine
from ..constraints import make_projectors
from ..nodal import Nodal
from ..problem import Problem
from .branch import Branch, Constant
from .cnn import CNN
from .decoders import CP, Tucker
from .deeponet import DeepONet, RepeatedDeepONet
from .encoders import PCA, TRANSFORMS, AbstractEncoder, Flatten, Standardise, Transformed
from .features import Affine, Chain, Coordinatewise, PeriodicFeatures
from .grid_core import field_branch, make_potentials
from .mlp import MLP
from .model import OperatorNetwork, Sensors, sense
from .modified_mlp import ModifiedMLP
from .potentials import Potentials
from .seponet import SepONet
from .trunks import BasisTrunk, NetworkTrunk, Trunk

BASES = {"fourier": Fourier, "legendre": Legendre, "chebyshev": Chebyshev, "sine": Sine, "nodal": Nodal}
NETWORKS = {"mlp": MLP, "modified_mlp": ModifiedMLP}


@dataclass(frozen=True)
class ModelConfig:
    """What a model is made of. The defaults are the paper's, but for sizes.

    **Arguments:**

    - `kind`: "seponet", "deeponet" (shared trunk, forward mode) or "deeponet_repeated" (as the paper benchmarks it).
    - `decoder`: "cp" or "tucker", of a SepONet.
    - `rank`: the number of basis functions; for Tucker that of each axis, a number or a mapping from axes.
    - `exact`: the axes whose conditions hold by construction: "all", "none" or a list.
    - `trunk`: "mlp", "modified_mlp", one of the classical bases "fourier", "nodal" (the coefficients are values on a
        uniform grid of a circle), "legendre", "chebyshev", "sine", or "classical" (Fourier on periodic axes, Legendre
        on others); or a mapping from axes to these.
    - `trunk_width`, `trunk_depth`, `trunk_activation`, `trunk_final`: of learned trunks.
    - `wavenumbers`: how many periodic features a learned trunk gets along an exactly periodic axis.
    - `encoder`: "sensors" (values as they are), "standardise" or "pca".
    - `transform`: for inputs by name, what the encoder sees instead of their values: "reciprocal" or "log".
    - `sensors`: the number of sensors along each axis of an input.
    - `components`: how many principal components "pca" keeps; None keeps those above 1e-8 of the variance.
    - `output`: "fields", or "curl": two fields along two periodic axes that come from one stream function.
    - `branch`: "mlp", "cnn" for one input sampled on a grid, or "spectral": from fields to a core that is a field over
        nodal trunks, commuting with translations (`nn/field.py`); its depth is the number of blocks.
    - `channels`: what a spectral branch sees, inputs and derivatives (`"u"`, `"w_x"`); by default all that is given.
    - `reach`, `waves`: of the filters of a spectral branch.
    - `branch_width`, `branch_depth`, `branch_activation`, `skip`, `zero_last`: of the branch.
    """

    kind: str = "seponet"
    decoder: str = "cp"
    rank: int | Mapping[str, int] = 50
    exact: str | tuple[str, ...] = "none"
    trunk: str | Mapping[str, str] = "mlp"
    trunk_width: int = 50
    trunk_depth: int = 5
    trunk_activation: str = "sine"
    trunk_final: str = "sine"
    wavenumbers: int = 5
    encoder: str = "sensors"
    transform: Mapping[str, str] = field(default_factory=dict)
    sensors: int = 128
    components: int | None = None
    output: str = "fields"
    branch: str = "mlp"
    branch_width: int = 50
    branch_depth: int = 5
    branch_activation: str = "tanh"
    skip: bool = False
    zero_last: bool = False
    channels: tuple[str, ...] = ()
    reach: int = 3
    waves: int = 8


def build(problem: Problem, config: ModelConfig | None = None, *, key: PRNGKeyArray, **changes: Any) -> OperatorNetwork:
    """Make a model with random weights.

    ```python
    model = nn.build(Burgers(), decoder="tucker", rank={"t": 10, "x": 32}, trunk="classical", exact="all", key=key)
    ```

    **Arguments:**

    - `problem`: the equation.
    - `config`: what to make; `changes` are applied on top.
    - `key`: for the initial weights, and for the sample of inputs that statistics of encoders are taken from.
    """
    config = ModelConfig(**{**vars(config or ModelConfig()), **changes})
    branch_key, trunk_key, sample_key = jax.random.split(key, 3)
    exact = _exact_axes(problem, config)
    kind = _choose("kind", config.kind, ("seponet", "deeponet", "deeponet_repeated"))
    if kind == "seponet":
        decoder = _decoder(problem, config)
        potentials = make_potentials(problem, _choose("output", config.output, ("fields", "curl")))
        trunks = _trunks(problem, config, exact, decoder.ranks(len(problem.domain)), potentials, trunk_key)
        count = len(problem.fields) if potentials is None else potentials.count
        size = int(np.prod(decoder.shape(len(problem.domain)))) * count
        if config.branch == "spectral":
            branch, sensors = field_branch(
                problem,
                trunks,
                size,
                config.channels,
                sample_key=sample_key,
                width=config.branch_width,
                blocks=config.branch_depth,
                reach=config.reach,
                waves=config.waves,
                key=branch_key,
            )
        else:
            branch, sensors = _branch(problem, config, size, branch_key, sample_key)
        return SepONet(
            problem=problem,
            exact=exact,
            sensors=sensors,
            branch=branch,
            trunks=trunks,
            decoder=decoder,
            whitening=None,
            potentials=potentials,
        )
    rank = config.rank
    if not isinstance(rank, int):
        raise ValueError(f"a DeepONet has one rank, a number; got {rank!r}")
    trunk = _joint_trunk(problem, config, exact, rank, trunk_key)
    branch, sensors = _branch(problem, config, rank * len(problem.fields), branch_key, sample_key)
    model = DeepONet if kind == "deeponet" else RepeatedDeepONet
    return model(problem=problem, exact=exact, sensors=sensors, branch=branch, trunk=trunk, rank=rank, whitening=None)


def _choose(what: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{what} must be one of {', '.join(known)}; got {value!r}{hint}")
    return value


def _exact_axes(problem: Problem, config: ModelConfig) -> tuple[str, ...]:
    periodic = tuple(name for name, axis in problem.domain.axes if axis.periodic)
    conditioned = tuple(name for name in problem.domain if any(c.axis == name for c in problem.linear_conditions))
    if config.exact == "none":
        return ()
    if config.exact == "all":
        return tuple(name for name in problem.domain if name in periodic or name in conditioned)
    chosen = (config.exact,) if isinstance(config.exact, str) else tuple(config.exact)
    for name in chosen:
        problem.domain.axis(name)
        if name not in periodic and name not in conditioned:
            raise ValueError(
                f"exact names the axis {name!r}, which has no condition that could hold by construction; the axes "
                f"that do are {', '.join(dict.fromkeys(periodic + conditioned)) or 'none'} (a Residual is always soft)"
            )
    return chosen


def _decoder(problem: Problem, config: ModelConfig) -> CP | Tucker:
    axes = problem.domain.names
    if _choose("decoder", config.decoder, ("cp", "tucker")) == "cp":
        if not isinstance(config.rank, int):
            raise ValueError(
                f"the CP decoder has one rank, a number; got {config.rank!r} (for Tucker, decoder='tucker')"
            )
        return CP(config.rank)
    if isinstance(config.rank, int):
        return Tucker((config.rank,) * len(axes))
    if set(config.rank) != set(axes):
        raise ValueError(f"rank must name the axes {', '.join(axes)}; got {dict(config.rank)}")
    return Tucker(tuple(config.rank[name] for name in axes))


def _per_axis(problem: Problem, trunk: str | Mapping[str, str]) -> dict[str, str]:
    if isinstance(trunk, str):
        trunk = dict.fromkeys(problem.domain, trunk)
    if set(trunk) != set(problem.domain):
        raise ValueError(f"trunk must be one name or name the axes {', '.join(problem.domain)}; got {dict(trunk)}")
    made: dict[str, str] = {}
    for name, axis in problem.domain.axes:
        kind = _choose(f"trunk of {name}", trunk[name], (*NETWORKS, *BASES, "classical"))
        made[name] = ("fourier" if axis.periodic else "legendre") if kind == "classical" else kind
    return made


def _trunks(
    problem: Problem,
    config: ModelConfig,
    exact: tuple[str, ...],
    ranks: tuple[int, ...],
    potentials: Potentials | None,
    key: PRNGKeyArray,
) -> tuple[Trunk, ...]:
    found = [{p.name: p for p in make_projectors(problem, field, exact)} for field in problem.fields]
    if potentials is not None:
        # A potential vanishes where its derivatives along other axes must, so the fields' conditions have to agree.
        if any(own != found[0] for own in found):
            raise ValueError("fields that come from a potential need the same kinds of exact conditions")
        found = found[:1] * potentials.count
    kinds = _per_axis(problem, config.trunk)
    keys = jax.random.split(key, len(ranks))
    made: list[Trunk] = []
    for i, (name, axis) in enumerate(problem.domain.axes):
        projectors = tuple(own.get(name) for own in found)
        if kinds[name] in BASES:
            family = BASES[kinds[name]]
            if family in (Fourier, Nodal) and not axis.periodic:
                raise ValueError(
                    f"a {kinds[name]} trunk needs a periodic axis; {name} is an interval: use legendre or chebyshev"
                )
            if axis.periodic and name in exact and family not in (Fourier, Nodal):
                raise ValueError(
                    f"{kinds[name]} functions aren't periodic; use fourier along {name}, or impose {name} softly"
                )
            traces = [p.traces if p is not None else () for p in projectors]
            if family is Nodal:
                made.append(BasisTrunk((Nodal(axis, ranks[i]),) * len(traces)))
            else:
                made.append(BasisTrunk(tuple(Orthonormal(family, axis, ranks[i], t) for t in traces)))
        else:
            periodic = axis.periodic and name in exact
            front = PeriodicFeatures(axis.lower, axis.length, config.wavenumbers) if periodic else None
            size = front.out_size if front is not None else 1
            network: Any = _network(config, kinds[name], size, len(projectors) * ranks[i], keys[i])
            made.append(NetworkTrunk(network if front is None else Chain((front, network)), projectors))
    return tuple(made)


def _joint_trunk(problem: Problem, config: ModelConfig, exact: tuple[str, ...], rank: int, key: PRNGKeyArray) -> Any:
    kinds = set(_per_axis(problem, config.trunk).values())
    if len(kinds) != 1 or not kinds <= set(NETWORKS):
        raise ValueError(
            f"a DeepONet has one learned trunk for all axes: one of {', '.join(NETWORKS)}; got {config.trunk!r}"
        )
    periodic = [axis.periodic and name in exact for name, axis in problem.domain.axes]
    out = len(problem.fields) * rank
    if not any(periodic):
        return _network(config, kinds.pop(), len(periodic), out, key)
    front = Coordinatewise(
        tuple(
            PeriodicFeatures(axis.lower, axis.length, config.wavenumbers) if wraps else Affine(axis.lower, axis.upper)
            for wraps, (_, axis) in zip(periodic, problem.domain.axes, strict=True)
        )
    )
    size = sum(2 * config.wavenumbers + 1 if wraps else 1 for wraps in periodic)
    return Chain((front, _network(config, kinds.pop(), size, out, key)))


def _network(config: ModelConfig, kind: str, in_size: int, out_size: int, key: PRNGKeyArray) -> Any:
    return NETWORKS[kind](
        in_size, out_size, config.trunk_width, config.trunk_depth, config.trunk_activation, config.trunk_final, key=key
    )


def _branch(
    problem: Problem, config: ModelConfig, out_size: int, key: PRNGKeyArray, sample_key: PRNGKeyArray
) -> tuple[Branch | Constant, Sensors]:
    if not problem.inputs:
        trained = config.kind == "seponet" and config.decoder == "tucker"
        return Constant(out_size, key=key if trained else None), ()
    sensors = tuple(
        (name, tuple((axis, config.sensors) for axis in space.domain)) for name, space in sorted(problem.inputs.items())
    )
    encoder = _choose("encoder", config.encoder, ("sensors", "standardise", "pca"))
    if config.branch == "spectral":
        raise ValueError(f'branch = "spectral" makes the core of a SepONet; got kind = {config.kind!r}')
    if _choose("branch", config.branch, ("mlp", "cnn", "spectral")) == "cnn":
        return _cnn_branch(problem, sensors, out_size, key), sensors
    samples = problem.sample(sample_key, 1000 if encoder != "sensors" else 2)
    encoders: dict[str, AbstractEncoder] = {}
    for name in config.transform:
        _choose("an input in transform", name, tuple(problem.inputs))
    for name, counts in sensors:
        values = np.asarray(sense(samples[name], dict(counts)))
        transform = config.transform.get(name)
        if transform is not None:
            values = _transformed(name, _choose(f"transform of {name}", transform, tuple(TRANSFORMS)), values)
        if encoder == "sensors":
            made = Flatten(values.shape[1:])
        elif encoder == "standardise" or not len(problem.inputs[name].domain):
            made = Standardise(values)
        else:
            made = PCA(values, count=config.components, energy=None if config.components else 1 - 1e-8)
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
