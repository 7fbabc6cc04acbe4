"""A residual network whose blocks multiply."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .activations import activation as named
from .linear import Linear, split


class GatedBlock(eqx.Module):
    r"""$h \mapsto h + W (\sigma(A h) \odot B h)$: products of features, which coefficients of an equation act by."""

    gate: Linear
    value: Linear
    out: Linear

    def __init__(self, width: int, *, key: PRNGKeyArray) -> None:
        keys = split(key, 3)
        self.gate, self.value, self.out = (Linear(width, width, key=k) for k in keys)

    def __call__(self, h: Float[Array, "n width"], activation: str) -> Float[Array, "n width"]:
        return h + self.out(named(activation)(self.gate(h)) * self.value(h))


class GatedMLP(eqx.Module):
    """Gated residual blocks between two affine layers; the last one sees `[hidden, inputs]`.

    For operators that change with the input: products of features are what a coefficient times a derivative needs.

    **Arguments:**

    - `in_size`, `out_size`: the sizes of the last axis.
    - `width`, `depth`: the size of the hidden features, and the number of blocks.
    - `activation`: of the gates, a name from `seponet.nn.activations`.
    - `zero_last`: start the last layer at zero.
    - `key`: for the initialisation.
    """

    first: Linear
    blocks: tuple[GatedBlock, ...]
    last: Linear
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        in_size: int,
        out_size: int,
        width: int,
        depth: int,
        activation: str = "gelu",
        *,
        zero_last: bool = False,
        key: PRNGKeyArray,
    ) -> None:
        if depth < 1:
            raise ValueError(f"a gated network has at least one block; got depth {depth}")
        named(activation)
        keys = split(key, depth + 2)
        self.first = Linear(in_size, width, key=keys[0])
        self.blocks = tuple(GatedBlock(width, key=k) for k in keys[1:-1])
        self.last = Linear(width + in_size, out_size, zero=zero_last, key=keys[-1])
        self.activation = activation

    @property
    def in_size(self) -> int:
        return self.first.in_size

    @property
    def out_size(self) -> int:
        return self.last.out_size

    def __call__(self, x: Float[Array, "n in"]) -> Float[Array, "n out"]:
        h = self.first(x)
        for block in self.blocks:
            h = block(h, self.activation)
        return self.last(jnp.concatenate([h, x], axis=-1))
