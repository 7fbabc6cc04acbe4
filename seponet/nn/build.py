"""From a problem and a configuration to a model."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from ..bases.cardinal import TrigonometricCardinal
from ..bases.orthonormal import Orthonormal
from ..bases.polynomial import Chebyshev, Legendre
from ..bases.trigonometric import Fourier, Sine
from ..calculus.potentials import Potentials
from ..calculus.projectors import make_projectors
from ..equations.problem import Problem
from .build_branch import choose, field_branch, make_branch, make_potentials
from .config import ModelConfig
from .coordinate_maps import Affine, Chain, Coordinatewise, PeriodicFeatures
from .decoders import CP, Tucker
from .deeponet import DeepONet
from .mlp import MLP
from .model import OperatorNetwork
from .modified_mlp import ModifiedMLP
from .repeated_deeponet import RepeatedDeepONet
from .seponet import SepONet
from .translation import make_translation
from .trunks import BasisTrunk, NetworkTrunk, Trunk

BASES = {"fourier": Fourier, "legendre": Legendre, "chebyshev": Chebyshev, "sine": Sine, "nodal": TrigonometricCardinal}
NETWORKS = {"mlp": MLP, "modified_mlp": ModifiedMLP}


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
    kind = choose("kind", config.kind, ("seponet", "deeponet", "deeponet_repeated"))
    if kind == "seponet":
        decoder = _decoder(problem, config)
        potentials = make_potentials(problem, choose("output", config.output, ("fields", "curl")))
        trunks = _trunks(problem, config, exact, decoder.ranks(len(problem.domain)), potentials, trunk_key)
        count = len(problem.fields) if potentials is None else potentials.count
        size = int(np.prod(decoder.shape(len(problem.domain)))) * count
        translation = None
        if config.invariant:
            translation = make_translation(problem, config.invariant, exact, trunks, decoder)
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
            branch, sensors = make_branch(problem, config, size, branch_key, sample_key, translation)
        return SepONet(
            problem=problem,
            exact=exact,
            sensors=sensors,
            branch=branch,
            trunks=trunks,
            decoder=decoder,
            whitening=None,
            potentials=potentials,
            translation=translation,
        )
    if config.invariant:
        raise ValueError(f"model.invariant is for a SepONet; got kind = {kind!r}")
    rank = config.rank
    if not isinstance(rank, int):
        raise ValueError(f"a DeepONet has one rank, a number; got {rank!r}")
    trunk = _joint_trunk(problem, config, exact, rank, trunk_key)
    branch, sensors = make_branch(problem, config, rank * len(problem.fields), branch_key, sample_key)
    model = DeepONet if kind == "deeponet" else RepeatedDeepONet
    return model(problem=problem, exact=exact, sensors=sensors, branch=branch, trunk=trunk, rank=rank, whitening=None)


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
    if isinstance(config.rank, str):
        raise ValueError(f"a model needs its ranks as numbers (`ranks.choose_ranks` finds some); got {config.rank!r}")
    if choose("decoder", config.decoder, ("cp", "tucker")) == "cp":
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
        kind = choose(f"trunk of {name}", trunk[name], (*NETWORKS, *BASES, "classical"))
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
            if family in (Fourier, TrigonometricCardinal) and not axis.periodic:
                raise ValueError(
                    f"a {kinds[name]} trunk needs a periodic axis; {name} is an interval: use legendre or chebyshev"
                )
            if axis.periodic and name in exact and family not in (Fourier, TrigonometricCardinal):
                raise ValueError(
                    f"{kinds[name]} functions aren't periodic; use fourier along {name}, or impose {name} softly"
                )
            traces = [p.traces if p is not None else () for p in projectors]
            if family is TrigonometricCardinal:
                made.append(BasisTrunk((TrigonometricCardinal(axis, ranks[i]),) * len(traces)))
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
