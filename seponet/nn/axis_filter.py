r"""Filters along the axes of a grid, as products of matrices: what happens nearby, and what acts from afar.

A channel is convolved with a kernel of its own along each axis. On a periodic axis the matrix of a kernel g is
circulant, $A_{ij} = g_{i-j}$, so the filter commutes with translations. On an interval with sensors at both ends,
values are continued as mirror images, $A_{ij} = g_{i-j} + g_{i+j}$ on a circle of twice the length, so that the middle
of the interval is treated alike everywhere. Matrices of some dozen rows are faster than Fourier transforms, and every
exporter knows their products.
"""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .linear import split, uniform


class AxisFilter(eqx.Module):
    """A convolution of each channel along one axis.

    **Arguments:**

    - `size`, `periodic`: the points of the axis, with both ends if it is an interval.
    - `channels`: how many.
    - `reach`: random numbers start up to this distance; farther away the kernel starts from zero. None starts from the
        identity.
    - `key`: for the initialisation.
    """

    size: int = eqx.field(static=True)
    periodic: bool = eqx.field(static=True)
    kernel: Float[Array, "channels circle"]

    def __init__(self, size: int, periodic: bool, channels: int, reach: int | None, *, key: PRNGKeyArray) -> None:
        self.size, self.periodic = size, periodic
        circle = size if periodic else max(2 * (size - 1), 1)
        distance = min(reach or 0, (circle - 1) // 2)
        near = np.arange(-distance, distance + 1) % circle
        numbers = uniform(key, (channels, len(near)), 1 / math.sqrt(len(near)))
        self.kernel = jnp.zeros((channels, circle)).at[:, near].set(1.0 if reach is None else numbers)

    def matrix(self) -> Float[Array, "channels size size"]:
        i, j = np.arange(self.size)[:, None], np.arange(self.size)[None]
        circle = self.kernel.shape[1]
        direct = self.kernel[:, (i - j) % circle]
        if self.periodic:
            return direct
        # The ends are their own mirror images.
        inner = (np.arange(self.size) > 0) & (np.arange(self.size) < self.size - 1)
        return direct + self.kernel[:, (i + j) % circle] * jnp.asarray(inner, self.kernel.dtype)[None, None]


class GridFilter(eqx.Module):
    """A filter along every axis of a grid, one after the other, of each channel of `[channels, n, *grid]`."""

    axes: tuple[AxisFilter, ...]

    def __init__(
        self,
        grid: tuple[int, ...],
        periodic: tuple[bool, ...],
        channels: int,
        reach: int | None,
        *,
        key: PRNGKeyArray,
    ) -> None:
        keys = split(key, len(grid))
        self.axes = tuple(
            AxisFilter(size, wraps, channels, reach, key=k) for size, wraps, k in zip(grid, periodic, keys, strict=True)
        )

    def __call__(self, x: Float[Array, "channels n *grid"]) -> Float[Array, "channels n *grid"]:
        for place, axis in enumerate(self.axes, start=2):
            moved = jnp.moveaxis(x, place, -1)
            rows = moved.reshape(moved.shape[0], -1, moved.shape[-1])
            product = jnp.matmul(rows, jnp.swapaxes(axis.matrix(), 1, 2), precision="highest")
            x = jnp.moveaxis(product.reshape(moved.shape), -1, place)
        return x
