"""A deterministic finish: L-BFGS on one fixed batch."""

from typing import Any

import equinox as eqx
import jax
import optax
from jaxtyping import PyTree

from .state import TrainState
from .step import TrainStep


def polish(stepper: TrainStep, state: TrainState, steps: int) -> TrainState:
    """`steps` of L-BFGS with line search on the batch of the state's step; the weights of lowest loss win.

    Worth it where the loss is smooth and the batch large: the fixed functions are what it fits, so many steps on few
    functions overfit them.
    """
    start = state.weights if state.mean is None else state.mean
    batch = eqx.filter_jit(stepper.batch)(state)

    def loss(weights: PyTree) -> jax.Array:
        return stepper.loss(weights, state.balance, batch, state.step)[0]

    solver = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(loss)

    @eqx.filter_jit
    def run(weights: PyTree) -> PyTree:
        def body(_: Any, carry: tuple[PyTree, PyTree, PyTree, jax.Array]) -> tuple[PyTree, PyTree, PyTree, jax.Array]:
            weights, inner, best, lowest = carry
            value, gradient = value_and_grad(weights, state=inner)
            updates, inner = solver.update(gradient, inner, weights, value=value, grad=gradient, value_fn=loss)
            better = value < lowest
            best = jax.tree.map(lambda new, old: jax.numpy.where(better, new, old), weights, best)
            return optax.apply_updates(weights, updates), inner, best, jax.numpy.minimum(value, lowest)

        first = (weights, solver.init(weights), weights, loss(weights))
        last, _, best, lowest = jax.lax.fori_loop(0, steps, body, first)
        better = loss(last) < lowest
        return jax.tree.map(lambda new, old: jax.numpy.where(better, new, old), last, best)

    weights = run(start)
    mean = None if state.mean is None else weights
    return eqx.tree_at(lambda s: (s.weights, s.mean), state, (weights, mean), is_leaf=lambda leaf: leaf is None)
