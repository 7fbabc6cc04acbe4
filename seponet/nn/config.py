"""What a model is made of, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .._text import did_you_mean

LARGEST = 10**6
"""No width, depth or rank is larger: it would not fit."""


@dataclass(frozen=True)
class ModelConfig:
    """What a model is made of. The defaults are the paper's, but for sizes.

    **Arguments:**

    - `kind`: "seponet", "deeponet" (shared trunk, forward mode) or "deeponet_repeated" (as the paper benchmarks it).
    - `decoder`: "cp" or "tucker", of a SepONet.
    - `rank`: the number of basis functions; for Tucker that of each axis, a number or a mapping from axes. "auto" is
        for recipes: `training.ranks.resolve_auto` chooses the ranks before a model is built.
    - `exact`: the axes whose conditions hold by construction: "all", "none" or a list. "auto" is for recipes:
        `training.exactness.resolve_exact` chooses axes whose conditions do not contradict each other.
    - `smooth`: the axes along which the data of exact conditions have kinks and are projected on smooth functions, as
        many as there are basis functions (`calculus/kinks.py`); of a SepONet.
    - `trunk`: "mlp", "modified_mlp", one of the classical bases "fourier", "nodal" (the coefficients are values on a
        uniform grid of a periodic axis), "legendre", "chebyshev", "sine", or "classical" (Fourier on periodic axes,
        Legendre on others); or a mapping from axes to these.
    - `trunk_width`, `trunk_depth`, `trunk_activation`, `trunk_final`: of learned trunks.
    - `wavenumbers`: how many periodic features a learned trunk gets along an exactly periodic axis.
    - `encoder`: "sensors" (values as they are), "standardise" or "pca".
    - `transform`: for inputs by name, what the encoder sees instead of their values: "reciprocal" or "log".
    - `sensors`: the number of sensors along each axis of an input; "auto" takes as many as resolve its functions
        (`functions.resolve`).
    - `components`: how many principal components "pca" keeps; None keeps all but `unseen` of the variance.
    - `unseen`: what the branch does not see of an input it can't give: for a tolerance below a thousandth the recipes
        for any PDE lower it.
    - `ridge`: of "pca": fine components count less, by this part of the largest variance (`nn.encoders.PCA`).
    - `output`: "fields", or "curl": two fields along two periodic axes that come from one stream function.
    - `branch`: "mlp"; "gated" (residual blocks that multiply, `nn/gated_mlp.py`; its depth is their number); "cnn" for
        one input sampled on a grid; "spectral": from fields to a core that is a field over nodal trunks, commuting
        with translations (`nn/spectral_branch.py`); or "marching": one network for a short window of time, applied
        again and again (`nn/marching_branch.py`). The depth of the last two is the number of blocks. "auto" is for
        recipes: `training.ranks.resolve_auto` takes "marching" for states of many numbers, else "gated".
    - `channels`: what a spectral branch sees, inputs and derivatives (`"u"`, `"w_x"`); by default all that is given.
    - `invariant`: a periodic axis along which the equation is invariant to translations: the model then commutes with
        translations along it (`nn/translation.py`). "auto" is for recipes: `training.ranks.resolve_auto` looks for one.
    - `reach`, `waves`: of the filters of a spectral branch: half the width of their kernels, and the highest wavenumber
        that has a free multiplier. Kernels of a marching branch start with this reach.
    - `branch_width`, `branch_depth`, `branch_activation`, `skip`, `zero_last`: of the branch.
    """

    kind: str = "seponet"
    decoder: str = "cp"
    rank: int | str | Mapping[str, int] = 50
    exact: str | tuple[str, ...] = "none"
    smooth: tuple[str, ...] = ()
    trunk: str | Mapping[str, str] = "mlp"
    trunk_width: int = 50
    trunk_depth: int = 5
    trunk_activation: str = "sine"
    trunk_final: str = "sine"
    wavenumbers: int = 5
    encoder: str = "sensors"
    transform: Mapping[str, str] = field(default_factory=dict)
    sensors: int | str = 128
    components: int | None = None
    unseen: float = 1e-8
    ridge: float = 0.0
    output: str = "fields"
    branch: str = "mlp"
    branch_width: int = 50
    branch_depth: int = 5
    branch_activation: str = "tanh"
    skip: bool = False
    zero_last: bool = False
    channels: tuple[str, ...] = ()
    invariant: str = ""
    reach: int = 3
    waves: int = 8

    def __post_init__(self) -> None:
        ranks = self.rank.values() if isinstance(self.rank, Mapping) else [self.rank]
        positive = {name: getattr(self, name) for name in ("trunk_width", "branch_width", "sensors", "components")}
        for name, value in [*positive.items(), *(("rank", rank) for rank in ranks)]:
            if isinstance(value, int) and not 1 <= value <= LARGEST:
                raise ValueError(f"model.{name} must be between 1 and {LARGEST:,}; got {value}")
        for name in ("trunk_depth", "branch_depth", "wavenumbers", "reach", "waves", "ridge"):
            if not 0 <= getattr(self, name) <= LARGEST:
                raise ValueError(f"model.{name} must be between 0 and {LARGEST:,}; got {getattr(self, name)}")
        if not 0 < self.unseen < 1:
            raise ValueError(f"model.unseen must be a part between 0 and 1; got {self.unseen}")


def choose(what: str, value: str, known: tuple[str, ...]) -> str:
    """The value of a setting, if it is one of the known names; else an error that suggests the nearest.

    **Arguments:**

    - `what`: the setting, as an error should call it.
    """
    if value not in known:
        hint = did_you_mean(str(value), known)
        raise ValueError(f"{what} must be one of {', '.join(known)}; got {value!r}{hint}")
    return value
