"""A residual convolutional network for inputs sampled on a grid."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .activations import activation as named
from .encoders import AbstractEncoder
from .linear import Linear, split, uniform


class Convolution(eqx.Module):
    """A convolution of `[n, *grid, in]` to `[n, *coarser grid, out]`; channels stand last, as CPU kernels like it.

    Entries start uniform within 1 / sqrt(fan-in).

    **Arguments:**

    - `dimensions`: the number of grid axes.
    - `in_size`, `out_size`: channels.
    - `kernel`: the odd number of cells along each axis.
    - `stride`: keep every so many cells.
    - `periodic`: whether the grid wraps around; otherwise it is continued by zeros.
    - `key`: for the initialisation.
    """

    weight: Float[Array, "*kernel in out"]
    bias: Float[Array, " out"]
    stride: int = eqx.field(static=True)
    periodic: bool = eqx.field(static=True)

    def __init__(
        self,
        dimensions: int,
        in_size: int,
        out_size: int,
        kernel: int,
        stride: int,
        periodic: bool,
        *,
        key: PRNGKeyArray,
    ) -> None:
        shape = (kernel,) * dimensions + (in_size, out_size)
        limit = 1 / math.sqrt(math.prod(shape[:-1]))
        weight_key, bias_key = split(key, 2)
        self.weight = uniform(weight_key, shape, limit)
        self.bias = uniform(bias_key, (out_size,), limit)
        self.stride = stride
        self.periodic = periodic

    def __call__(self, x: Float[Array, "n *grid in"]) -> Float[Array, "n *coarse out"]:
        dimensions = x.ndim - 2
        reach = self.weight.shape[0] // 2
        padding = [(0, 0), *[(reach, reach)] * dimensions, (0, 0)]
        x = jnp.pad(x, padding, mode="wrap" if self.periodic else "constant")
        axes = "XYZ"[:dimensions]
        y = jax.lax.conv_general_dilated(
            x,
            self.weight,
            window_strides=(self.stride,) * dimensions,
            padding="VALID",
            dimension_numbers=(f"N{axes}C", f"{axes}IO", f"N{axes}C"),
            precision=jax.lax.Precision.HIGHEST,
        )
        return y + self.bias.reshape((1,) * (y.ndim - 1) + (-1,))


class ResidualBlock(eqx.Module):
    r"""$x \mapsto \sigma(C_2\, \sigma(C_1 x) + S x)$: 3-cell convolutions, the first of stride 2 with twice the
    channels, and a 1-cell skip of stride 2."""

    first: Convolution
    second: Convolution
    skip: Convolution
    activation: str = eqx.field(static=True)

    def __init__(self, dimensions: int, channels: int, periodic: bool, activation: str, *, key: PRNGKeyArray) -> None:
        keys = split(key, 3)
        self.first = Convolution(dimensions, channels, 2 * channels, 3, 2, periodic, key=keys[0])
        self.second = Convolution(dimensions, 2 * channels, 2 * channels, 3, 1, periodic, key=keys[1])
        self.skip = Convolution(dimensions, channels, 2 * channels, 1, 2, periodic, key=keys[2])
        self.activation = activation

    def __call__(self, x: Float[Array, "n *grid channels"]) -> Float[Array, "n *coarse double"]:
        sigma = named(self.activation)
        return sigma(self.second(sigma(self.first(x))) + self.skip(x))


class CNN(AbstractEncoder):
    """The branch of the paper's Navier-Stokes example: a 1x1 convolution to `width` channels, residual blocks that
    halve the grid and double the channels, and a dense layer on what is left.

    It is an encoder, so it can stand beside the encoders of other inputs. Alone, with `Chain(())` as the body, it is
    the whole branch.

    **Arguments:**

    - `components`: components of the input function, `None` if it is scalar valued (no component axis).
    - `grid`: the sensors along each of one to three axes.
    - `out_size`: the number of features.
    - `width`, `blocks`: channels of the first layer and number of residual blocks.
    - `activation`: a name from `seponet.nn.activations`.
    - `periodic`: whether the input is periodic in all its axes.
    - `key`: for the initialisation.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    components: int | None = eqx.field(static=True)
    first: Convolution
    blocks: tuple[ResidualBlock, ...]
    last: Linear

    def __init__(
        self,
        components: int | None,
        grid: tuple[int, ...],
        out_size: int,
        *,
        width: int = 16,
        blocks: int = 4,
        activation: str = "gelu",
        periodic: bool = False,
        key: PRNGKeyArray,
    ) -> None:
        if not 1 <= len(grid) <= 3:
            raise ValueError(f"a CNN expects sensors on a grid of one to three axes; got grid={grid}")
        named(activation)  # a wrong name fails here rather than at the first evaluation
        self.shape = grid if components is None else (components, *grid)
        self.components = components
        first_key, last_key, *keys = split(key, blocks + 2)
        self.first = Convolution(len(grid), components or 1, width, 1, 1, periodic, key=first_key)
        self.blocks = tuple(
            ResidualBlock(len(grid), width * 2**i, periodic, activation, key=k) for i, k in enumerate(keys)
        )
        cells = math.prod(-(-n // 2**blocks) for n in grid)
        self.last = Linear(cells * width * 2**blocks, out_size, key=last_key)

    @property
    def size(self) -> int:
        return self.last.out_size

    def feature_maps(self, values: Float[Array, "functions *shape"]) -> Float[Array, "functions *coarse channels"]:
        """The field before it is flattened; on periodic grids it moves with the input."""
        x = values[..., None] if self.components is None else jnp.moveaxis(values, 1, -1)
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x

    def __call__(self, values: Float[Array, "functions *shape"]) -> Float[Array, "functions size"]:
        x = self.feature_maps(values)
        return self.last(x.reshape(x.shape[0], -1))
