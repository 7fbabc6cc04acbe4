"""Why a block of steps was not finite: an equation that has no value, or steps that are too large."""

import equinox as eqx

from ..calculus.undefined import Undefined
from .abstract_step import AbstractStep
from .state import TrainState

FORMULA = "keep the formula away from there, with jnp.maximum(s, 1e-6) for instance"
LIFT = "set train.loss.normalise = false, since functions are scaled by that residual"


class Diverged(RuntimeError):
    """Training did not stay finite, although it went back to a good state with smaller steps."""


def refuse_to_go_on(step: AbstractStep, state: TrainState, last: int, loss: float, rollbacks: int) -> None:
    """`Diverged`, if the step was halved often enough; or at once if an equation has no value at a good state (the
    logarithm of a negative number, a division by zero), since it has none whatever the step.

    **Arguments:**

    - `step`: the training step.
    - `state`: the state before the block that was not finite.
    - `last`, `loss`: the number of the block's last step, and the loss there.
    - `rollbacks`: how often the run has gone back.
    """
    config = step.config
    found, always = undefined_equation(step, state, last)
    where = f" ({found}, for function {found.function} of the batch)" if found is not None else ""
    if always:
        raise Diverged(
            f"an equation of {type(step.problem).__name__} is not finite at step {int(state.step)}, whatever the "
            f"learning rate{where}: " + (LIFT if found and found.lift else FORMULA)
        )
    if rollbacks > config.rollbacks:
        raise Diverged(
            f"the loss became {loss:.3g} at step {last} although the step was halved {config.rollbacks} "
            f"times{where}; lower train.optimizer.rate (now {config.optimizer.rate:g}) or set train.optimizer.clip = 1"
        )


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
