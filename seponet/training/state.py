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


class PolishState(eqx.Module):
    """What the polish changes: its steps done, the parameters, the solver's state, and the best parameters so far with
    their loss."""

    done: Int[Array, ""]
    parameters: PyTree
    solver: PyTree
    best: PyTree
    lowest: Float[Array, ""]


OPEN = 2**31 - 1
"""The length of a run whose end is not known yet; its rate is held as long."""


class TrainState(eqx.Module):
    """All that changes in training, and so what a checkpoint holds.

    - `step`: steps done.
    - `length`: how many there will be; `OPEN` as long as a budget has not said so.
    - `parameters`: the trainable arrays of the model.
    - `optimizer`: the optimizer's state.
    - `balance`: factors of the terms' weights.
    - `density`: of an adaptive sampler.
    - `rate`: a factor of the learning rate, halved whenever the run had to go back.
    - `pool`: states that the model has advanced, if it is trained on several windows.
    - `targets`: functions that the discretisation has solved, if it is trained on these.
    - `polish`: what the polish after the last step has come to, once it has begun; all else stays then.
    """

    step: Int[Array, ""]
    length: Int[Array, ""]
    parameters: PyTree
    optimizer: PyTree
    balance: Float[Array, " terms"]
    density: Density
    rate: Float[Array, ""]
    pool: Pool | None = None
    targets: TargetPool | None = None
    polish: PolishState | None = None

    @property
    def total(self) -> int:
        """Steps done, those of the polish included."""
        return int(self.step) + (0 if self.polish is None else int(self.polish.done))


class Record(eqx.Module):
    """What a block of steps reports: its last losses, and whether every step was finite."""

    loss: Float[Array, ""]
    terms: Float[Array, " terms"]
    finite: Bool[Array, ""]
