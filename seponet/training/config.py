"""How a model is trained, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained. The defaults suit learned trunks; the recipes set what suits them.

    **Arguments:**

    - `steps`: optimizer steps.
    - `functions`: input functions in a batch.
    - `points`: collocation points along each axis: a number, a mapping from axes, or "auto": one and a half times
        the rank.
    - `sampling`: "uniform", "stratified", "gauss" or "adaptive", or a mapping from axes (see `Sampler`).
    - `resample`: steps between new functions and points.
    - `weights`: by axis, the weight of the soft conditions on its faces; "equation" is that of the equations.
    - `residual`: "pointwise", or "spectral": projected on the waves of trigonometric trunks (`losses/spectral.py`).
    - `smoothing`: a spectral residual is measured in the norm |k|^-smoothing: a number, or by equation.
    - `normalise`: divide the loss of each function by that of its lift alone, so that all functions count alike.
    - `cap`: beyond this loss, a function counts with the logarithm of its loss instead, so that no single one rules a
        step; 0 is off.
    - `windows`: train on states that the model itself has advanced by up to so many windows less one (`state_pool.py`).
    - `pool`: how many states are kept, of which a step takes `functions`.
    - `accept`: a state is advanced only if its loss is below this part of the lift's, and drawn anew otherwise.
    - `ramp`: the part of the training in which the number of windows grows from 1 to `windows`.
    - `causality`: see `losses.pointwise.physics_loss`; 0 is off.
    - `balance`: steps between two updates of weights that make the gradients of all terms equally long; 0 is off.
    - `whitening`: "none", "diagonal" or "full" (`training.whitening.whiten`), or "modal" for spectral residuals
        (`training.whitening.modal_weights`); `amplitude` is its amplitude.
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
