"""From a problem and a configuration to a model."""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..bases.cardinal import TrigonometricCardinal
from ..bases.orthonormal import Orthonormal
from ..bases.polynomial import Chebyshev, Legendre
from ..bases.trigonometric import Fourier, Sine
from ..calculus.decoders import CP, AbstractDecoder, Tucker
from ..calculus.potentials import Potentials, curl
from ..calculus.projectors import Projector, make_projectors
from ..domain import Interval
from ..equations.problem import Problem
from .affine_plus import AffinePlus
from .branch import Branch
from .build_branch import join_encoders, make_branch, make_field_branch
from .build_marching import make_marching_branch
from .coefficient_maps import PrincipalComponents
from .config import ModelConfig, choose
from .coordinate_maps import Affine, Chain, Coordinatewise, PeriodicFeatures
from .deeponet import DeepONet
from .fixed import Fixed
from .linear import split
from .mlp import MLP
from .model import OperatorNetwork
from .modified_mlp import ModifiedMLP
from .repeated_deeponet import RepeatedDeepONet
from .seponet import SepONet
from .translation import make_translation
from .trunks import AbstractTrunk, BasisTrunk, NetworkTrunk

BASES = {"fourier": Fourier, "legendre": Legendre, "chebyshev": Chebyshev, "sine": Sine, "nodal": TrigonometricCardinal}
PERIODIC = (Fourier, TrigonometricCardinal)
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
    branch_key, trunk_key, sample_key = split(key, 3)
    exact = _exact_axes(problem, config)
    kind = choose("kind", config.kind, ("seponet", "deeponet", "deeponet_repeated"))
    if kind == "seponet":
        return _seponet(problem, config, exact, branch_key, trunk_key, sample_key)
    if config.invariant:
        raise ValueError(f"model.invariant is for a SepONet; got kind = {kind!r}")
    rank = config.rank
    if not isinstance(rank, int):
        raise ValueError(f"a DeepONet has one rank, a number; got {rank!r}")
    trunk = _joint_trunk(problem, config, exact, rank, trunk_key)
    branch, sensors = make_branch(problem, config, rank * len(problem.fields), branch_key, sample_key)
    model = DeepONet if kind == "deeponet" else RepeatedDeepONet
    return model(problem=problem, exact=exact, sensors=sensors, branch=branch, trunk=trunk, rank=rank, whitening=None)


def with_components(
    model: OperatorNetwork,
    config: ModelConfig,
    components: PrincipalComponents,
    affine: tuple[np.ndarray, np.ndarray],
    key: PRNGKeyArray,
) -> OperatorNetwork:
    """The model with a branch, of new random weights, whose outputs are the principal components of solutions. Models
    whose branch is no network behind encoders stay as they are.

    **Arguments:**

    - `components`: of the solutions.
    - `affine`: a matrix and an offset, from features to outputs, that the network corrects.
    """
    branch: Any = model.branch
    if not isinstance(branch, Branch) or config.branch not in ("mlp", "gated"):
        return model
    joined = join_encoders(branch.encoders, config, len(components.scales.value), key)
    matrix, offset = (Fixed(jnp.asarray(array, float)) for array in affine)
    parts: Any = (Branch(joined.encoders, AffinePlus(matrix, offset, joined.body)), components)
    return eqx.tree_at(lambda m: (m.branch, m.whitening), model, parts, is_leaf=lambda leaf: leaf is None)


def _seponet(
    problem: Problem,
    config: ModelConfig,
    exact: tuple[str, ...],
    branch_key: PRNGKeyArray,
    trunk_key: PRNGKeyArray,
    sample_key: PRNGKeyArray,
) -> SepONet:
    axes = len(problem.domain)
    decoder = _decoder(problem, config)
    potentials = _potentials(problem, choose("output", config.output, ("fields", "curl")))
    trunks = _trunks(problem, config, exact, decoder.ranks(axes), potentials, trunk_key)
    count = len(problem.fields) if potentials is None else potentials.count
    size = math.prod(decoder.shape(axes)) * count
    translation = None
    if config.invariant:
        translation = make_translation(problem, config.invariant, exact, trunks, decoder)
    if config.branch == "marching":
        branch, sensors = make_marching_branch(problem, config, exact, trunks, branch_key, sample_key)
    elif config.branch == "spectral":
        branch, sensors = make_field_branch(problem, config, trunks, size, branch_key, sample_key)
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
        smoothed=_smoothed(problem, config),
    )


def _smoothed(problem: Problem, config: ModelConfig) -> tuple[str, ...]:
    unknown = [name for name in config.smooth if name not in problem.domain]
    if unknown:
        raise ValueError(f"smooth names axes, which are {', '.join(problem.domain)}; got {', '.join(unknown)}")
    return tuple(config.smooth)


def _exact_axes(problem: Problem, config: ModelConfig) -> tuple[str, ...]:
    periodic = tuple(name for name, axis in problem.domain.axes if axis.periodic)
    conditioned = tuple(name for name in problem.domain if any(c.axis == name for c in problem.linear_conditions))
    if config.exact == "none":
        return ()
    if config.exact == "auto":
        raise ValueError('a model needs its exact axes: "all", "none" or a list of axes; "auto" is for recipes')
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


def _decoder(problem: Problem, config: ModelConfig) -> AbstractDecoder:
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


def _potentials(problem: Problem, output: str) -> Potentials | None:
    """The potentials that coefficients belong to: one stream function for "curl"; None for "fields"."""
    if output == "fields":
        return None
    periodic = [name for name, axis in problem.domain.axes if axis.periodic]
    if len(periodic) != 2 or len(problem.fields) != 2:
        raise ValueError(
            f'output = "curl" needs two fields along two periodic axes; got the fields {", ".join(problem.fields)} '
            f"and the periodic axes {', '.join(periodic) or 'none'}"
        )
    return curl(*periodic)


def _trunk_kinds(problem: Problem, trunk: str | Mapping[str, str]) -> dict[str, str]:
    """For each axis the name of a network or of a classical basis."""
    if isinstance(trunk, str):
        trunk = dict.fromkeys(problem.domain, trunk)
    if set(trunk) != set(problem.domain):
        raise ValueError(f"trunk must be one name or name the axes {', '.join(problem.domain)}; got {dict(trunk)}")
    kinds: dict[str, str] = {}
    for name, axis in problem.domain.axes:
        kind = choose(f"trunk of {name}", trunk[name], (*NETWORKS, *BASES, "classical"))
        kinds[name] = ("fourier" if axis.periodic else "legendre") if kind == "classical" else kind
    return kinds


def _trunks(
    problem: Problem,
    config: ModelConfig,
    exact: tuple[str, ...],
    ranks: tuple[int, ...],
    potentials: Potentials | None,
    key: PRNGKeyArray,
) -> tuple[AbstractTrunk, ...]:
    by_owner = [{p.name: p for p in make_projectors(problem, field, exact)} for field in problem.fields]
    if potentials is not None:
        # A potential vanishes where its derivatives along other axes must, so the fields' conditions have to agree.
        if any(projectors != by_owner[0] for projectors in by_owner):
            raise ValueError("fields that come from a potential need the same kinds of exact conditions")
        by_owner = by_owner[:1] * potentials.count
    kinds = _trunk_kinds(problem, config.trunk)
    keys = split(key, len(ranks))
    trunks: list[AbstractTrunk] = []
    for i, (name, axis) in enumerate(problem.domain.axes):
        projectors = tuple(of_axis.get(name) for of_axis in by_owner)
        if kinds[name] in BASES:
            trunks.append(_basis_trunk(kinds[name], name, axis, name in exact, ranks[i], projectors))
            continue
        wraps = axis.periodic and name in exact
        front = PeriodicFeatures(axis.lower, axis.length, config.wavenumbers) if wraps else None
        size = front.out_size if front is not None else 1
        network: Any = _network(config, kinds[name], size, len(projectors) * ranks[i], keys[i])
        trunks.append(NetworkTrunk(network if front is None else Chain((front, network)), projectors))
    return tuple(trunks)


def _basis_trunk(
    kind: str, name: str, axis: Interval, exact: bool, rank: int, projectors: tuple[Projector | None, ...]
) -> BasisTrunk:
    """Classical functions of one axis on which the traces of its exact conditions vanish."""
    family = BASES[kind]
    if family in PERIODIC and not axis.periodic:
        raise ValueError(f"a {kind} trunk needs a periodic axis; {name} is an interval: use legendre or chebyshev")
    if axis.periodic and exact and family not in PERIODIC:
        raise ValueError(f"{kind} functions aren't periodic; use fourier along {name}, or impose {name} softly")
    if family is TrigonometricCardinal:
        return BasisTrunk((TrigonometricCardinal(axis, rank),) * len(projectors))
    traces = [projector.traces if projector is not None else () for projector in projectors]
    return BasisTrunk(tuple(Orthonormal(family, axis, rank, of_owner) for of_owner in traces))


def _joint_trunk(problem: Problem, config: ModelConfig, exact: tuple[str, ...], rank: int, key: PRNGKeyArray) -> Any:
    kinds = set(_trunk_kinds(problem, config.trunk).values())
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
