"""Arrays that belong to a model but are not trained."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, PyTree


class Fixed(eqx.Module):
    """An array that training leaves alone: saved, loaded and moved to devices with the model, never updated.

    Two things keep it still. `trainable(model)` leaves it out, so an optimiser has no state for it and weight decay
    cannot reach it; and reading it through `fixed()` stops gradients, so it costs no backward pass.
    """

    value: Array

    def __call__(self) -> Array:
        return jax.lax.stop_gradient(self.value)


def trainable(model: PyTree) -> PyTree[bool]:
    """Which leaves to train, as a filter for `equinox.partition(model, trainable(model))`: all floating point arrays
    but those in a `Fixed`."""

    def train(node: Any) -> Any:
        if isinstance(node, Fixed):
            return jax.tree.map(lambda _: False, node)
        return eqx.is_inexact_array(node)

    return jax.tree.map(train, model, is_leaf=lambda node: isinstance(node, Fixed))


def is_fixed(module: PyTree) -> bool:
    """Whether training leaves all of a module alone."""
    return not any(jax.tree.leaves(trainable(module)))


def parameter_count(model: PyTree) -> int:
    """How many numbers of a model are trained."""
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(model, trainable(model))))
