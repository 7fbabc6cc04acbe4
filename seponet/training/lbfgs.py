"""A deterministic polish: L-BFGS on one fixed batch."""

from typing import Any

import equinox as eqx
import jax
import optax
from jaxtyping import PyTree

from .state import TrainState
from .step import TrainStep


def polish(step: TrainStep, state: TrainState, steps: int) -> TrainState:
    """`steps` of L-BFGS with line search on the batch of the state's step; the parameters of lowest loss win.

    Worth it where the loss is smooth and the batch large: the fixed functions are what it fits, so many steps on few
    functions overfit them.
    """
    batch = eqx.filter_jit(step.batch)(state)

    def loss(parameters: PyTree) -> jax.Array:
        return step.loss(parameters, state.balance, batch, state.step)[0]

    solver = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(loss)

    @eqx.filter_jit
    def run(parameters: PyTree) -> PyTree:
        def body(_: Any, carry: tuple[PyTree, PyTree, PyTree, jax.Array]) -> tuple[PyTree, PyTree, PyTree, jax.Array]:
            parameters, inner, best, lowest = carry
            value, gradient = value_and_grad(parameters, state=inner)
            updates, inner = solver.update(gradient, inner, parameters, value=value, grad=gradient, value_fn=loss)
            better = value < lowest
            best = jax.tree.map(lambda new, old: jax.numpy.where(better, new, old), parameters, best)
            return optax.apply_updates(parameters, updates), inner, best, jax.numpy.minimum(value, lowest)

        first = (parameters, solver.init(parameters), parameters, loss(parameters))
        last, _, best, lowest = jax.lax.fori_loop(0, steps, body, first)
        better = loss(last) < lowest
        return jax.tree.map(lambda new, old: jax.numpy.where(better, new, old), last, best)

    return eqx.tree_at(lambda s: s.parameters, state, run(state.parameters))
