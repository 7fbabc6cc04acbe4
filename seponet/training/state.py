"""What a training step takes and what it changes."""

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..calculus.collocation import Collocation
from ..functions import Functions
from .sampling import Density
from .state_pool import Pool
from .target_pool import TargetPool


class Batch(eqx.Module):
    """The functions of a step and their values at the sensors, its points, and for each function one over the loss of
    its lift; with the rows of the pool that the functions come from, if there is one."""

    inputs: dict[str, Functions]
    sensor_values: dict[str, Float[Array, "functions *_"]]
    collocation: Collocation
    scale: Float[Array, " functions"]
    rows: Int[Array, " functions"] | None = None


class TrainState(eqx.Module):
    """All that changes in training, and so what a checkpoint holds.

    - `step`: steps done.
    - `parameters`: the trainable arrays of the model.
    - `optimizer`: the optimizer's state.
    - `balance`: factors of the terms' weights.
    - `density`: of an adaptive sampler.
    - `rate`: a factor of the learning rate, halved whenever the run had to go back.
    - `pool`: states that the model has advanced, if it is trained on several windows.
    - `targets`: functions that the discretisation has solved, if it is trained on these.
    """

    step: Int[Array, ""]
    parameters: PyTree
    optimizer: PyTree
    balance: Float[Array, " terms"]
    density: Density
    rate: Float[Array, ""]
    pool: Pool | None = None
    targets: TargetPool | None = None


class Record(eqx.Module):
    """What a block of steps reports: its last losses, and whether every step was finite."""

    loss: Float[Array, ""]
    terms: Float[Array, " terms"]
    finite: Bool[Array, ""]
