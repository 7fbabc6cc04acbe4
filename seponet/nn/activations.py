"""Activations by name, each with the rule that carries it through a Taylor series."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._text import did_you_mean
from ..calculus import taylor


@dataclass(frozen=True)
class Activation:
    """An elementwise function and its action on normalised Taylor coefficients."""

    function: Callable[[Array], Array]
    taylor: Callable[[Array], Array]

    def __call__(self, x: Array) -> Array:
        return self.function(x)


def _same(x: Array) -> Array:
    return x


ACTIVATIONS: dict[str, Activation] = {
    "sine": Activation(jnp.sin, taylor.sin),
    "tanh": Activation(jnp.tanh, taylor.tanh),
    "gelu": Activation(jax.nn.gelu, taylor.gelu),
    "identity": Activation(_same, _same),
}


def activation(name: str) -> Activation:
    """The activation called `name`."""
    if name not in ACTIVATIONS:
        hint = did_you_mean(name, ACTIVATIONS)
        raise ValueError(f"there is no activation {name!r}{hint}; choose one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]
