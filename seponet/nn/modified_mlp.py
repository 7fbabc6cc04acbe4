"""The modified multilayer perceptron of Wang, Teng and Perdikaris (2021)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..calculus import taylor
from .activations import activation as named
from .linear import Linear, split


class ModifiedMLP(eqx.Module):
    r"""Every hidden layer chooses, neuron by neuron, between two encodings U and V of the input:

    $$U, V, H_1 = \sigma(x W_{U,V,1} + b_{U,V,1}),\quad Z_k = \sigma(H_k W_k + b_k),\quad
    H_{k+1} = (1 - Z_k)\, U + Z_k V,\quad y = H_L W + b.$$

    `depth` is the number of hidden layers H_1, ..., H_L, so a plain `MLP` of the same depth has as many layers on the
    way from input to output.

    **Arguments:**

    - `in_size`, `out_size`: the sizes of the last axis.
    - `width`, `depth`: the size and the number of hidden layers, `depth >= 1`.
    - `activation`, `final_activation`: names from `seponet.nn.activations`.
    - `zero_last`: start the last layer at zero.
    - `key`: for the initialisation.
    """

    encoder: Linear
    gates: tuple[Linear, ...]
    last: Linear
    activation: str = eqx.field(static=True)
    final_activation: str = eqx.field(static=True)

    def __init__(
        self,
        in_size: int,
        out_size: int,
        width: int,
        depth: int,
        activation: str = "tanh",
        final_activation: str = "identity",
        *,
        zero_last: bool = False,
        key: PRNGKeyArray,
    ) -> None:
        if depth < 1:
            raise ValueError(f"a modified MLP has at least one hidden layer; got depth={depth}")
        for name in (activation, final_activation):
            named(name)  # a wrong name fails here rather than at the first evaluation
        keys = split(key, depth + 1)
        # U, V and H_1 see the same input with the same fan-in: one matrix product serves the three.
        self.encoder = Linear(in_size, 3 * width, key=keys[0])
        self.gates = tuple(Linear(width, width, key=k) for k in keys[1:-1])
        self.last = Linear(width, out_size, zero=zero_last, key=keys[-1])
        self.activation = activation
        self.final_activation = final_activation

    @property
    def in_size(self) -> int:
        return self.encoder.in_size

    @property
    def out_size(self) -> int:
        return self.last.out_size

    def __call__(self, x: Float[Array, "*n in"]) -> Float[Array, "*n out"]:
        sigma = named(self.activation)
        u, v, h = jnp.split(sigma(self.encoder(x)), 3, axis=-1)
        for gate in self.gates:
            h = u + sigma(gate(h)) * (v - u)
        return named(self.final_activation)(self.last(h))

    def taylor(self, series: Float[Array, "orders *n in"]) -> Float[Array, "orders *n out"]:
        """The same layers on normalised Taylor coefficients; the gates become convolutions of coefficients."""
        sigma = named(self.activation).taylor
        u, v, h = jnp.split(sigma(self.encoder.taylor(series)), 3, axis=-1)
        for gate in self.gates:
            h = u + taylor.multiply(sigma(gate.taylor(h)), v - u)
        return named(self.final_activation).taylor(self.last.taylor(h))
