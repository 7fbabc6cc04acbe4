"""A block of a network from fields to fields: a filter, and a gated mixing of channels."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .linear import Linear, matmul, split


class FieldBlock(eqx.Module):
    r"""$x \mapsto x + W_2 (a \odot \mathrm{gelu}(b))$ with $(a, b) = W_1 (g * x) + c$.

    **Arguments:**

    - `make_filter`: from a key to a filter of every channel of `[channels, n, *grid]`.
    - `channels`: how many.
    - `key`: for the initialisation.
    """

    filter: Callable[[Any], Array]
    gate: Linear
    mix: Linear

    def __init__(
        self, make_filter: Callable[[PRNGKeyArray], Callable[[Any], Array]], channels: int, *, key: PRNGKeyArray
    ) -> None:
        keys = split(key, 3)
        self.filter = make_filter(keys[0])
        self.gate = Linear(channels, 2 * channels, key=keys[1])
        self.mix = Linear(channels, channels, key=keys[2])

    def __call__(self, x: Float[Array, "channels n *grid"]) -> Float[Array, "channels n *grid"]:
        a, b = jnp.split(mix_channels(self.gate, self.filter(x)), 2)
        return x + mix_channels(self.mix, a * jax.nn.gelu(b))


def mix_channels(linear: Linear, x: Float[Array, "channels n *grid"]) -> Float[Array, "out n *grid"]:
    """An affine map of the channels, the same everywhere."""
    y = matmul(linear.weight.T, x.reshape(x.shape[0], -1)) + linear.bias[:, None]
    return y.reshape(-1, *x.shape[1:])
