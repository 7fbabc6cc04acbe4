"""Recipes: what to train, as data. A recipe is a TOML file with the tables [model] and [train]."""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from .hints import did_you_mean
from .nn.build import ModelConfig

PACKAGED = Path(__file__).parent / "recipes"


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained. The defaults suit learned trunks; the recipes set what suits them.

    **Arguments:**

    - `steps`: optimizer steps.
    - `functions`: input functions in a batch.
    - `points`: collocation points along each axis: a number, a mapping from axes, or "auto": one and a half times
        the rank.
    - `sampling`: "uniform", "stratified", "gauss" or "adaptive", or a mapping from axes (see `sampling.Sampler`).
    - `resample`: steps between new functions and points.
    - `weights`: by axis, the weight of the soft conditions on its faces; "equation" is that of the equations.
    - `residual`: "pointwise", or "spectral": projected on the waves of trigonometric trunks (`galerkin.py`).
    - `smoothing`: a spectral residual is measured in the norm |k|^-smoothing: a number, or by equation.
    - `normalise`: divide the loss of each function by that of its lift alone, so that all functions count alike.
    - `cap`: beyond this loss, a function counts with the logarithm of its loss instead, so that no single one rules a
        step; 0 is off.
    - `windows`: train on states that the model itself has advanced by up to so many windows less one (`windows.py`).
    - `pool`: how many states are kept, of which a step takes `functions`.
    - `accept`: a state is advanced only if its loss is below this part of the lift's, and drawn anew otherwise.
    - `ramp`: the part of the training in which the number of windows grows from 1 to `windows`.
    - `causality`: see `loss.physics_loss`; 0 is off.
    - `balance`: steps between two updates of weights that make the gradients of all terms equally long; 0 is off.
    - `whitening`: "none", "diagonal" or "full" (`conditioning.whiten`), or "modal" for spectral residuals
        (`galerkin.modal_weights`); `amplitude` is its amplitude.
    - `optimizer`, `optimizer_options`: "adam", "soap" or "muon", and their arguments.
    - `schedule`, `schedule_options`: "constant", "exponential", "cosine" or "warmup_stable_decay"; `rate` is the
        (highest) learning rate.
    - `clip`: largest norm of a gradient; 0 is off.
    - `average`: decay of an average of the weights that is used for evaluation; 0 is off.
    - `finish`: L-BFGS steps on a fixed batch after the last step.
    - `precision`: "float32" or "float64".
    - `slab`: points in a slab of the loss; 0 lets `plan` choose.
    - `data_weight`: weight of supervised pairs, if any are given.
    - `validate`, `checkpoint`: seconds between validations and between checkpoints.
    - `keep`: how many of the newest checkpoints are kept, besides the best one.
    - `rollbacks`: how often a diverged run may go back to its last good state with half the step.
    """

    steps: int = 10_000
    functions: int = 100
    points: int | str | Mapping[str, int] = 32
    sampling: str | Mapping[str, str] = "stratified"
    resample: int = 2
    weights: Mapping[str, float] = field(default_factory=dict)
    residual: str = "pointwise"
    smoothing: float | Mapping[str, float] = 0.0
    normalise: bool = True
    cap: float = 0.0
    windows: int = 1
    pool: int = 128
    accept: float = 0.1
    ramp: float = 0.5
    causality: float = 0.0
    balance: int = 0
    whitening: str = "none"
    amplitude: float = 1.0
    optimizer: str = "soap"
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    rate: float = 3e-3
    schedule: str = "cosine"
    schedule_options: Mapping[str, Any] = field(default_factory=dict)
    clip: float = 0.0
    average: float = 0.0
    finish: int = 0
    precision: str = "float32"
    slab: int = 0
    data_weight: float = 1.0
    validate: float = 10.0
    checkpoint: float = 30.0
    keep: int = 2
    rollbacks: int = 3

    def __post_init__(self) -> None:
        for name in ("steps", "functions", "resample", "keep", "windows"):
            if getattr(self, name) < 1:
                raise ValueError(f"train.{name} must be at least 1; got {getattr(self, name)}")
        for name, known in (
            ("precision", ("float32", "float64")),
            ("whitening", ("none", "diagonal", "full", "modal")),
            ("residual", ("pointwise", "spectral")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"train.{name} must be one of {', '.join(known)}; got {getattr(self, name)!r}")
        if self.residual != "spectral" and self.whitening == "modal":
            raise ValueError('train.whitening = "modal" scales the waves of train.residual = "spectral"; set both')
        if self.residual == "spectral" and self.causality:
            raise ValueError('train.causality weighs points in time, and train.residual = "spectral" has none; set one')
        if self.windows > 1 and (self.resample > 1 or self.pool < self.functions):
            raise ValueError(
                "train.windows > 1 takes new states from the pool in every step: it needs train.resample = 1 and "
                f"train.pool >= train.functions; got {self.resample}, {self.pool} and {self.functions}"
            )
        if self.windows > 1 and not self.normalise:
            raise ValueError("train.windows > 1 accepts states by their relative loss; it needs train.normalise = true")


@dataclass(frozen=True)
class Recipe:
    """A model and how to train it."""

    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any], source: str = "the recipe") -> "Recipe":
        """Check every key and type; `source` says in errors where they come from."""
        _known_keys(tables, ("model", "train"), source, "table")
        return cls(
            _make(ModelConfig, tables.get("model", {}), f"{source}, [model]"),
            _make(TrainConfig, tables.get("train", {}), f"{source}, [train]"),
        )

    def to_dict(self) -> dict[str, Any]:
        return {"model": _plain(self.model), "train": _plain(self.train)}

    def changed(self, changes: Mapping[str, Any]) -> "Recipe":
        """With `{"train.steps": 300}` and the like applied."""
        tables = self.to_dict()
        for key, value in changes.items():
            table, _, name = key.partition(".")
            if table not in tables or not name:
                raise ValueError(
                    f"a setting is written model.<key> or train.<key>, for instance train.steps; got {key!r}"
                )
            head, _, tail = name.partition(".")
            if tail:
                inner = tables[table].get(head)
                tables[table][head] = {**(inner if isinstance(inner, dict) else {}), tail: value}
            else:
                tables[table][head] = value
        return Recipe.from_dict(tables, "the settings")


def load_recipe(recipe: "str | Path | Recipe", problem: str | None = None) -> Recipe:
    """A recipe by name ("quick", "best", "paper": the one of the problem, else the general one) or from a file."""
    if isinstance(recipe, Recipe):
        return recipe
    name = str(recipe)
    candidates = [PACKAGED / problem / f"{name}.toml"] if problem else []
    candidates += [PACKAGED / f"{name}.toml", Path(name)]
    for path in candidates:
        if path.is_file() and path.suffix == ".toml":
            try:
                return Recipe.from_dict(tomllib.loads(path.read_text()), str(path.name))
            except tomllib.TOMLDecodeError as error:
                raise ValueError(f"{path} is not valid TOML: {error}") from None
    known = recipes_of(problem)
    hint = did_you_mean(name, known)
    raise ValueError(f"there is no recipe {name!r}{hint}; choose one of {', '.join(known)}, or give a .toml file")


def recipes_of(problem: str | None) -> list[str]:
    """The names of the packaged recipes for a problem."""
    own = {path.stem for path in (PACKAGED / problem).glob("*.toml")} if problem else set()
    return sorted(own | {path.stem for path in PACKAGED.glob("*.toml")})


def _make(kind: type, table: Any, source: str) -> Any:
    if not isinstance(table, Mapping):
        raise ValueError(f"{source} must be a table of settings; got {table!r}")
    fields = {f.name: f for f in dataclasses.fields(kind)}
    _known_keys(table, tuple(fields), source, "setting")
    values: dict[str, Any] = {}
    for name, value in table.items():
        kind_of = fields[name].type
        annotation = kind_of.__name__ if isinstance(kind_of, type) else str(kind_of)
        values[name] = _check_type(f"{source}: {name}", value, annotation)
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def _check_type(name: str, value: Any, annotation: str) -> Any:
    """A value as TOML or the command line gives it, as the setting wants it."""
    if isinstance(value, Mapping) and "Mapping" in annotation:
        return dict(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if annotation == "bool":
        fits = isinstance(value, bool)
    elif annotation.startswith("int"):
        fits = (number and isinstance(value, int)) or (value == "auto" and "str" in annotation)
    elif annotation.startswith("float"):
        fits = number
    elif isinstance(value, list | tuple):
        fits = "tuple" in annotation
    else:
        fits = isinstance(value, str) or value is None
    if not fits:
        raise ValueError(f"{name} must be {annotation}; got {value!r}")
    if annotation.startswith("float") and number:
        return 1.0 * cast("float", value)
    return tuple(value) if isinstance(value, list | tuple) else value


def _known_keys(table: Mapping[str, Any], known: tuple[str, ...], source: str, what: str) -> None:
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known) or f"; known are {', '.join(known)}"
            raise ValueError(f"{source} has an unknown {what} {key!r}{hint}")


def _plain(config: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for f in dataclasses.fields(config):
        value = getattr(config, f.name)
        if value is not None:
            made[f.name] = (
                dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
            )
    return made


def flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, with keys like "train.steps"."""
    made: dict[str, Any] = {}
    for key, value in tables.items():
        name = f"{prefix}{key}"
        made |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return made
