"""The multilayer perceptron."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .activations import activation as named
from .linear import Linear, split


class MLP(eqx.Module):
    r"""$h_0 = x$, $h_{l+1} = \sigma(h_l W_l + b_l)$, $y = \sigma_\text{final}(h_L W_L + b_L)$.

    Layers are counted and initialised as in `equinox.nn.MLP`: `depth` hidden layers and one output layer, and the same
    key gives the same network. The final activation is applied at depth zero too, so the paper's universal
    approximation form is a branch `MLP(..., depth=1)` with trunks `MLP(..., depth=0, final_activation="sine")`.

    **Arguments:**

    - `in_size`, `out_size`: the sizes of the last axis.
    - `width`, `depth`: the size and the number of hidden layers.
    - `activation`, `final_activation`: names from `seponet.nn.activations`.
    - `skip`: the last layer sees `[hidden, inputs]` rather than the hidden layer alone, so the linear part of the map
        need not be squeezed through the activations.
    - `zero_last`: start the last layer at zero.
    - `key`: for the initialisation.
    """

    layers: tuple[Linear, ...]
    activation: str = eqx.field(static=True)
    final_activation: str = eqx.field(static=True)
    skip: bool = eqx.field(static=True)

    def __init__(
        self,
        in_size: int,
        out_size: int,
        width: int,
        depth: int,
        activation: str = "tanh",
        final_activation: str = "identity",
        *,
        skip: bool = False,
        zero_last: bool = False,
        key: PRNGKeyArray,
    ) -> None:
        if depth < 0:
            raise ValueError(f"depth counts hidden layers, so it is at least 0; got {depth}")
        if skip and depth == 0:
            raise ValueError("skip=True goes past the hidden layers and there are none; take depth >= 1 or skip=False")
        for name in (activation, final_activation):
            named(name)  # a wrong name fails here rather than at the first evaluation
        keys = split(key, depth + 1)
        sizes = (in_size, *(width,) * depth)
        hidden = [Linear(sizes[i], sizes[i + 1], key=keys[i]) for i in range(depth)]
        last = Linear(sizes[-1] + (in_size if skip else 0), out_size, zero=zero_last, key=keys[-1])
        self.layers = (*hidden, last)
        self.activation = activation
        self.final_activation = final_activation
        self.skip = skip

    @property
    def in_size(self) -> int:
        return self.layers[0].in_size

    @property
    def out_size(self) -> int:
        return self.layers[-1].out_size

    def __call__(self, x: Float[Array, "*n in"]) -> Float[Array, "*n out"]:
        h = x
        for layer in self.layers[:-1]:
            h = named(self.activation)(layer(h))
        return named(self.final_activation)(self.layers[-1](self._last_input(h, x)))

    def taylor(self, series: Float[Array, "orders *n in"]) -> Float[Array, "orders *n out"]:
        """The same layers on normalised Taylor coefficients."""
        h = series
        for layer in self.layers[:-1]:
            h = named(self.activation).taylor(layer.taylor(h))
        return named(self.final_activation).taylor(self.layers[-1].taylor(self._last_input(h, series)))

    def _last_input(self, hidden: Array, inputs: Array) -> Array:
        return jnp.concatenate([hidden, inputs], axis=-1) if self.skip else hidden
