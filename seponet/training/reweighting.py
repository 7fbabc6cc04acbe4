"""How much each term and each function counts: fixed weights of the terms, their balance, and a cap on functions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from ..equations.terms import Term
from .config import LossConfig


def term_weights(terms: tuple[Term, ...], config: LossConfig) -> Float[Array, " terms"]:
    """The weights of the terms as `train.loss.weights` has them: by the term's name, by its axis, or 1."""
    axes = {term.face.axis for term in terms if term.face is not None}
    names = {term.name for term in terms}
    for key in config.weights:
        if key not in axes | names | {"equation"}:
            known = ", ".join(sorted(axes | names))
            raise ValueError(f"train.loss.weights names {key!r}; the terms and axes with soft conditions are {known}")

    def weight(term: Term) -> float:
        group = "equation" if term.face is None else term.face.axis
        return float(config.weights.get(term.name, config.weights.get(group, 1.0)))

    return jnp.asarray([weight(term) for term in terms])


def capped(
    weights: Float[Array, "terms functions"], table: Float[Array, "terms functions"], cap: float
) -> Float[Array, "terms functions"]:
    """Weights that hold the loss of each function at the cap: beyond it, the gradient is that of the logarithm.

    **Arguments:**

    - `weights`: of every term and function, which sum to a mean over functions.
    - `table`: the loss of every term and function.
    - `cap`: the largest loss of a function; 0 is off.
    """
    if not cap:
        return weights
    losses = jax.lax.stop_gradient(table.shape[1] * jnp.sum(weights * table, axis=0))
    return weights * jnp.minimum(1.0, cap / jnp.maximum(losses, 1e-30))[None]


def balancing_factors(
    loss: Callable[[PyTree, Float[Array, " terms"]], Array], parameters: PyTree, terms: int
) -> Float[Array, " terms"]:
    """Factors that give every term a gradient of the same length as the first one's (Wang et al. 2021).

    **Arguments:**

    - `loss`: the loss from the network's parameters and from factors of the terms.
    - `parameters`: where the gradients are taken.
    - `terms`: how many there are.
    """

    def length(factors: Array) -> Any:
        return optax.tree.norm(jax.grad(loss)(parameters, factors))

    lengths = jax.lax.map(length, jnp.eye(terms))
    return lengths[0] / jnp.maximum(lengths, 1e-6 * jnp.max(lengths))
