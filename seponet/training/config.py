"""How a model is trained, as data: the table [train] of a recipe, and the tables inside of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

MOST = 10**12
"""No count and no number of seconds is larger: it would neither end nor fit."""


@dataclass(frozen=True)
class SamplingConfig:
    """Where the equations are asked to hold: `[train.sampling]`.

    **Arguments:**

    - `points`: collocation points along each axis: a number, a mapping from axes, or "auto": one and a half times
        the rank.
    - `method`: "gauss", "uniform", "stratified" or "adaptive", or a mapping from axes (see `Sampler`).
    - `resample`: steps between new functions and points.
    """

    points: int | Literal["auto"] | Mapping[str, int] = 32
    method: str | Mapping[str, str] = "gauss"
    resample: int = 1

    def __post_init__(self) -> None:
        _at_least_one("train.sampling", self, "resample")
        for points in self.points.values() if isinstance(self.points, Mapping) else [self.points]:
            if not isinstance(points, str) and not 1 <= points <= MOST:
                raise ValueError(f"train.sampling.points must be between 1 and {MOST:,}; got {points}")


@dataclass(frozen=True)
class LossConfig:
    """What is minimised: `[train.loss]`.

    **Arguments:**

    - `residual`: "pointwise"; "tested" by as many functions as there are coefficients (`losses/tested.py`); or
        "spectral": projected on the waves of trigonometric trunks (`losses/spectral.py`).
    - `smoothing`: a spectral residual is measured in the norm |k|^-smoothing: a number, or by equation.
    - `weights`: by axis, the weight of the soft conditions on its faces; "equation" is that of the equations.
    - `normalise`: divide the loss of each function by that of its lift alone, so that all functions count alike.
    - `cap`: beyond this loss, a function counts with the logarithm of its loss instead, so that no single one rules a
        step; 0 is off.
    - `balance`: steps between two updates of weights that make the gradients of all terms equally long; 0 is off.
    - `data_weight`: weight of supervised pairs, if any are given.
    """

    residual: str = "pointwise"
    smoothing: float | Mapping[str, float] = 0.0
    weights: Mapping[str, float] = field(default_factory=dict)
    normalise: bool = True
    cap: float = 0.0
    balance: int = 0
    data_weight: float = 1.0

    def __post_init__(self) -> None:
        _one_of("train.loss", self, "residual", "pointwise", "tested", "spectral")
        _not_negative("train.loss", self, "cap", "balance", "data_weight")
        for name, weight in self.weights.items():
            if not 0 <= weight < math.inf:
                raise ValueError(f"train.loss.weights.{name} must be finite and not negative; got {weight}")
        for smoothing in self.smoothing.values() if isinstance(self.smoothing, Mapping) else [self.smoothing]:
            if not abs(smoothing) <= MOST:
                raise ValueError(f"train.loss.smoothing must be a number of a few digits; got {smoothing}")


@dataclass(frozen=True)
class OptimizerConfig:
    """How it is minimised: `[train.optimizer]`.

    **Arguments:**

    - `name`, `options`: "adam", "soap" or "muon", and their arguments.
    - `rate`: the (highest) learning rate.
    - `schedule`, `schedule_options`: "constant", "exponential" or "cosine", and their arguments.
    - `clip`: largest norm of a gradient; 0 is off.
    """

    name: str = "soap"
    options: Mapping[str, Any] = field(default_factory=dict)
    rate: float = 3e-3
    schedule: str = "cosine"
    schedule_options: Mapping[str, Any] = field(default_factory=dict)
    clip: float = 0.0

    @property
    def hold(self) -> float:
        """The part of a run before the rate begins to fall, which does not depend on its length; 0 if there is none."""
        options = self.schedule_options
        return options.get("hold", 0.0) if self.schedule == "cosine" and "steps" not in options else 0.0

    def __post_init__(self) -> None:
        _not_negative("train.optimizer", self, "clip")
        if not 0 < self.rate <= MOST:
            raise ValueError(f"train.optimizer.rate must be positive and finite; got {self.rate}")


@dataclass(frozen=True)
class RolloutConfig:
    """Training on states that the model itself has advanced: `[train.rollout]`, see `state_pool.py`.

    **Arguments:**

    - `windows`: states are advanced by up to `windows - 1` windows of time; 1 is off.
    - `pool`: how many states are kept, of which a step takes `functions`.
    - `accept`: a state is advanced only if its loss is below this part of the lift's, and drawn anew otherwise.
    - `ramp`: the part of the training in which the number of windows grows from 1 to `windows`.
    """

    windows: int = 1
    pool: int = 128
    accept: float = 0.1
    ramp: float = 0.5

    def __post_init__(self) -> None:
        _at_least_one("train.rollout", self, "windows", "pool")
        _not_negative("train.rollout", self, "accept", "ramp")


@dataclass(frozen=True)
class TargetsConfig:
    """Training on what the own discretisation solves, instead of residuals: `[train.targets]`, see `solved_step.py`.

    **Arguments:**

    - `pool`: how many of the newest solved functions are kept, of which a step takes `functions`; 0 is off.
    - `renew`: steps between two batches of newly solved functions; "auto" measures what both cost, and spends as long
        on solving as on fitting.
    - `first`: how many functions are solved before the first step; their principal components are what the branch
        gives, as many as leave a twentieth of `tolerance`; more functions where the inputs have many
        features. 0 solves none, and keeps the coefficients themselves.
    - `amplitude`: of a component whose output is one, relative to its size: a small one makes calm steps.
    - `newton`, `iterations`: Newton steps for a batch, at most, and iterations of GMRES in each.
    - `tolerance`: a batch is solved when its functions change by less than this part of their solutions.
    - `trial`: whether to try training on residuals as well, for a twentieth of the time each, and to take what is ahead
        (`trial.py`).
    """

    pool: int = 0
    renew: int | Literal["auto"] = 10
    first: int = 0
    amplitude: float = 0.02
    newton: int = 10
    iterations: int = 10
    tolerance: float = 1e-3
    trial: bool = False

    def __post_init__(self) -> None:
        _at_least_one("train.targets", self, *([] if self.renew == "auto" else ["renew"]), "newton", "iterations")
        _not_negative("train.targets", self, "pool", "first", "amplitude")
        if not 0 < self.tolerance < 1:
            raise ValueError(f"train.targets.tolerance must be a part between 0 and 1; got {self.tolerance}")


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained: `[train]`.

    **Arguments:**

    - `steps`: optimizer steps; "auto" takes as many as fit into a budget, or into `seconds` after compilation. That
        needs a schedule that does not depend on the length from the start: "cosine" with a `hold`.
    - `seconds`: of "auto" steps.
    - `tolerance`: the relative error that is asked for: discretisations are chosen for a quarter of it, and a run ends
        where its validation error is below; 0 takes what `training.ranks` takes, and all steps.
    - `gain`: of "auto" steps: the rate falls early once the validation error has fallen by less than this part in the
        second half of the steps so far; 0 is off.
    - `functions`: input functions in a batch.
    - `sampling`, `loss`, `optimizer`, `rollout`, `targets`: tables of their own.
    - `whitening`: "none", "diagonal" or "full" (`training.whitening.whiten`), or "modal" for spectral residuals
        (`training.whitening.modal_weights`).
    - `amplitude`: the size of a whitened output of one; a small one makes calm steps.
    - `polish`: L-BFGS steps on a fixed batch after the last step; 0 is off.
    - `precision`: "float32" or "float64".
    - `slab`: points in a slab of the loss; 0 lets `choose_slab` choose.
    - `validate`, `checkpoint`: seconds between validations and between checkpoints.
    - `keep`: how many of the newest checkpoints are kept, besides the best one.
    - `rollbacks`: how often a diverged run may go back to its last good state with half the step.
    """

    steps: int | Literal["auto"] = 10_000
    seconds: float = 60.0
    tolerance: float = 0.0
    gain: float = 0.0
    functions: int = 100
    whitening: str = "none"
    amplitude: float = 1.0
    polish: int = 0
    precision: str = "float32"
    slab: int = 0
    validate: float = 10.0
    checkpoint: float = 30.0
    keep: int = 2
    rollbacks: int = 3
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    targets: TargetsConfig = field(default_factory=TargetsConfig)

    def __post_init__(self) -> None:
        _at_least_one("train", self, *([] if self.steps == "auto" else ["steps"]), "functions", "keep")
        _not_negative(
            "train",
            self,
            "seconds",
            "tolerance",
            "gain",
            "amplitude",
            "polish",
            "slab",
            "validate",
            "checkpoint",
            "rollbacks",
        )
        _one_of("train", self, "precision", "float32", "float64")
        _one_of("train", self, "whitening", "none", "diagonal", "full", "modal")
        if self.loss.residual != "spectral" and self.whitening == "modal":
            raise ValueError('train.whitening = "modal" scales the waves of train.loss.residual = "spectral"; set both')
        if self.rollout.windows > 1 and (self.sampling.resample > 1 or self.rollout.pool < self.functions):
            raise ValueError(
                "train.rollout.windows > 1 takes new states from the pool in every step: it needs "
                "train.sampling.resample = 1 and train.rollout.pool >= train.functions; got "
                f"{self.sampling.resample}, {self.rollout.pool} and {self.functions}"
            )
        if self.rollout.windows > 1 and not self.loss.normalise:
            raise ValueError(
                "train.rollout.windows > 1 accepts states by their relative loss; it needs train.loss.normalise = true"
            )
        self._check_targets()
        if self.steps == "auto" and (not self.optimizer.hold or self.rollout.windows > 1):
            raise ValueError(
                'train.steps = "auto" ends a schedule with the budget: it needs train.optimizer.schedule = "cosine" '
                "with schedule_options.hold (0.4, say) and train.rollout.windows = 1; or give a number of steps"
            )

    def _check_targets(self) -> None:
        targets = self.targets
        if not targets.pool:
            return
        if targets.pool < max(self.functions, targets.first):
            raise ValueError(
                f"train.targets.pool is at least train.functions and train.targets.first; got {targets.pool}, "
                f"{self.functions} and {targets.first}"
            )
        if self.loss.residual != "tested":
            raise ValueError(
                f'train.targets solves tested residuals: set train.loss.residual = "tested"; got {self.loss.residual!r}'
            )
        if self.rollout.windows > 1 or self.polish:
            raise ValueError(
                "train.targets goes with neither train.rollout.windows > 1 nor train.polish; for these set "
                "train.targets.pool = 0"
            )


def _at_least_one(table: str, config: Any, *names: str) -> None:
    for name in names:
        if not getattr(config, name) >= 1:
            raise ValueError(f"{table}.{name} must be at least 1; got {getattr(config, name)}")
        if getattr(config, name) > MOST:
            raise ValueError(f"{table}.{name} must be at most {MOST:,}; got {getattr(config, name)}")


def _not_negative(table: str, config: Any, *names: str) -> None:
    for name in names:
        if not 0 <= getattr(config, name) <= MOST:
            raise ValueError(f"{table}.{name} must be between 0 and {MOST:,}; got {getattr(config, name)}")


def _one_of(table: str, config: Any, name: str, *known: str) -> None:
    if getattr(config, name) not in known:
        raise ValueError(f"{table}.{name} must be one of {', '.join(known)}; got {getattr(config, name)!r}")
