"""Why a block of steps was not finite: an equation that has no value, or steps that are too large."""

import equinox as eqx

from ..calculus.undefined import Undefined
from .abstract_step import AbstractStep
from .state import TrainState


def undefined_equation(step: AbstractStep, state: TrainState, last: int) -> tuple[Undefined | None, bool]:
    """Where an equation has no value in the steps after a good state.

    **Arguments:**

    - `step`: the training step.
    - `state`: the state before the block that was not finite.
    - `last`: the number of the block's last step.

    **Returns:** the place, if there is one, and whether it is there for the good state's parameters already, so that
    no smaller step would help.
    """
    good = state
    while int(state.step) < last:
        after, record = step.run(state, 1)
        if not bool(record.finite):
            found = step.find_undefined(eqx.tree_at(lambda s: s.parameters, state, good.parameters))
            return (found, True) if found is not None else (step.find_undefined(state), False)
        state = after
    return None, False
