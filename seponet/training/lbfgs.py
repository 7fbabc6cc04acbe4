"""A deterministic polish: L-BFGS on one fixed batch."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree

from .._program import OwnProgram
from .state import PolishState, TrainState
from .step import TrainStep


class Polish:
    """L-BFGS with line search on the batch of a state's step; the parameters of lowest loss win.

    Worth it where the loss is smooth and the batch large: the fixed functions are what it fits, so many steps on few
    functions overfit them. The batch follows from the state before the polish, so whoever goes on from a `PolishState`
    that was stored takes the steps that would have been taken.

    **Arguments:**

    - `step`: the training step, whose loss is minimised.
    - `state`: the state after its last one; its parameters are where the polish starts.
    """

    def __init__(self, step: TrainStep, state: TrainState) -> None:
        self.parameters = state.parameters
        batch = OwnProgram(step.batch)(state)
        solver = optax.lbfgs()

        def loss(parameters: PyTree) -> Array:
            return step.loss(parameters, state.balance, batch, state.step)[0]

        value_and_grad = optax.value_and_grad_from_state(loss)

        def one(_: Any, polish: PolishState) -> PolishState:
            old, inner = polish.parameters, polish.solver
            value, gradient = value_and_grad(old, state=inner)
            updates, inner = solver.update(gradient, inner, old, value=value, grad=gradient, value_fn=loss)
            best = _choose(jnp.less(value, polish.lowest), old, polish.best)
            new = optax.apply_updates(old, updates)
            return PolishState(polish.done + 1, new, inner, best, jnp.minimum(value, polish.lowest))

        def start(parameters: PyTree) -> PolishState:
            fresh = PolishState(jnp.zeros((), int), parameters, solver.init(parameters), parameters, loss(parameters))
            # Python's numbers take the type of what they meet; those of a checkpoint have one of their own.
            return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), fresh)

        self._start = OwnProgram(start)
        # The number of steps is not compiled in, so it does not matter how they are grouped.
        self._run = OwnProgram(lambda polish, steps: jax.lax.fori_loop(0, steps, one, polish))
        self._best = OwnProgram(
            lambda polish: _choose(loss(polish.parameters) < polish.lowest, polish.parameters, polish.best)
        )

    def start(self) -> PolishState:
        """The state before the first step."""
        return self._start(self.parameters)

    def run(self, polish: PolishState, steps: Int[Array, ""] | int) -> PolishState:
        """The state after some more steps."""
        return self._run(polish, jnp.asarray(steps))

    def best(self, polish: PolishState) -> PyTree:
        """The parameters of lowest loss so far."""
        return self._best(polish)


def _choose(first: Array, one: PyTree, other: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(first, a, b), one, other)
