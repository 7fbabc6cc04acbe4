r"""A branch from fields to fields, for periodic inputs: translated inputs give translated outputs.

Every block filters each channel in Fourier space and mixes channels point by point,

$$x \mapsto x + W_2\,(a \odot \mathrm{gelu}(b)), \qquad (a, b) = W_1 (g * x) + c,$$

where the transform of the filter g is that of a small kernel (what happens nearby) plus free numbers for the modes of
low wavenumber (what acts from afar, like a pressure). A filter commutes with translations, and so does the branch: a
structure that needs no data to be learned.

Channels stand first, `[channels, n, *grid]`: the transforms then run over the last axes, and a mixing is one product of
matrices, in both directions of differentiation.
"""

import math
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, PRNGKeyArray

from .branch import AbstractBranch
from .field_block import FieldBlock, mix_channels
from .fixed import Fixed
from .linear import Linear, split, uniform


class SpectralFilter(eqx.Module):
    """A periodic convolution of each channel of `[channels, n, *grid]` with a filter of its own.

    **Arguments:**

    - `grid`: points along each of the periodic axes.
    - `channels`: how many.
    - `reach`: the kernel has 2 reach + 1 points along each axis.
    - `waves`: the highest wavenumber along each axis whose modes have free multipliers.
    - `key`: for the initialisation.
    """

    grid: tuple[int, ...] = eqx.field(static=True)
    kernel: Float[Array, "channels *near"]
    low: Float[Array, "channels *far 2"]

    def __init__(self, grid: tuple[int, ...], channels: int, reach: int, waves: int, *, key: PRNGKeyArray) -> None:
        self.grid = grid
        near = tuple(min(2 * reach + 1, n) for n in grid)
        far = [min(waves, (n - 1) // 2) for n in grid]
        self.kernel = uniform(key, (channels, *near), 1 / math.sqrt(math.prod(near)))
        self.low = jnp.zeros((channels, *(2 * k + 1 for k in far[:-1]), far[-1] + 1, 2))

    def multipliers(self) -> Array:
        """The transform of the filters, `[channels, *half grid]`."""
        near, far = self.kernel.shape[1:], self.low.shape[1:-1]
        # Centred: the kernel's middle stands at the origin, and negative wavenumbers at the end of an axis.
        widths = [(0, n - m) for n, m in zip(self.grid, near, strict=True)]
        kernel = jnp.pad(self.kernel, [(0, 0), *widths])
        kernel = jnp.roll(kernel, [-(m // 2) for m in near], range(1, kernel.ndim))
        total = jnp.fft.rfftn(kernel, axes=range(1, kernel.ndim))
        widths = [(0, n - m) for n, m in zip(total.shape[1:], far, strict=True)]
        low = jnp.pad(jax.lax.complex(self.low[..., 0], self.low[..., 1]), [(0, 0), *widths])
        low = jnp.roll(low, [-(m // 2) for m in far[:-1]], range(1, low.ndim - 1))
        return total + low

    def __call__(self, x: Float[Array, "channels n *grid"]) -> Float[Array, "channels n *grid"]:
        return convolve(x, self.multipliers())


@jax.custom_vjp
def convolve(
    x: Float[Array, "channels n *grid"], multipliers: Complex[Array, "channels *half"]
) -> Float[Array, "channels n *grid"]:
    """Periodic convolution with filters whose transforms are `multipliers`.

    Its derivative is of the same kind, and needs three real transforms; that of `rfftn` as it is would take complex
    ones.
    """
    return _convolve(x, multipliers)[0]


def _convolve(x: Array, multipliers: Array) -> tuple[Array, tuple[Array, Array]]:
    axes = tuple(range(2, x.ndim))
    series = jnp.fft.rfftn(x, axes=axes)
    return jnp.fft.irfftn(series * multipliers[:, None], x.shape[2:], axes), (series, multipliers)


def _convolve_back(saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    series, multipliers = saved
    grid = cotangent.shape[2:]
    axes = tuple(range(2, cotangent.ndim))
    back = jnp.fft.rfftn(cotangent, axes=axes)
    # A real transform holds one of each pair of conjugate modes, so all but those without a partner count twice.
    last = grid[-1] // 2 + 1
    counts = np.where((np.arange(last) == 0) | (2 * np.arange(last) == grid[-1]), 1.0, 2.0) / math.prod(grid)
    of_multipliers = jnp.sum(jnp.conj(back) * series, axis=1) * jnp.asarray(counts, back.dtype).reshape(
        (1,) * len(grid) + (-1,)
    )
    return jnp.fft.irfftn(back * jnp.conj(multipliers)[:, None], grid, axes), of_multipliers


convolve.defvjp(_convolve, _convolve_back)


class FieldBranch(AbstractBranch):
    """Input fields on a grid to the core of a Tucker decoder, whose sizes along the periodic axes are that grid.

    **Arguments:**

    - `samples`: for each input its values on the grid, `[samples, *components, *grid]`; they set the inputs' scales.
    - `grid`: points along each of the periodic axes.
    - `out`: fields to return, one for each potential and basis function of the other axes.
    - `width`, `blocks`: channels, and how many blocks.
    - `reach`, `waves`: of the filters, see `SpectralFilter`.
    - `key`: for the initialisation. The last layer starts from zero.
    """

    grid: tuple[int, ...] = eqx.field(static=True)
    scales: dict[str, Fixed]
    first: Linear
    blocks: tuple[FieldBlock, ...]
    last: Linear

    def __init__(
        self,
        samples: Mapping[str, Float[Array | np.ndarray, "samples *_"]],
        grid: tuple[int, ...],
        out: int,
        *,
        width: int = 32,
        blocks: int = 4,
        reach: int = 3,
        waves: int = 8,
        key: PRNGKeyArray,
    ) -> None:
        self.grid = grid
        sizes = {name: float(np.sqrt(np.mean(np.square(values)))) for name, values in samples.items()}
        self.scales = {name: Fixed(jnp.asarray(1 / size if size else 1.0)) for name, size in sizes.items()}
        channels = sum(math.prod(values.shape[1 : values.ndim - len(grid)]) for values in samples.values())
        first, last, *keys = split(key, blocks + 2)
        self.first = Linear(channels, width, key=first)
        self.blocks = tuple(
            FieldBlock(lambda k: SpectralFilter(grid, width, reach, waves, key=k), width, key=key) for key in keys
        )
        self.last = Linear(width, out, zero=True, key=last)

    def __call__(self, sensor_values: Mapping[str, Array]) -> Float[Array, "functions size"]:
        if set(sensor_values) != set(self.scales):
            expected, got = ", ".join(sorted(self.scales)), ", ".join(sorted(sensor_values)) or "none"
            raise ValueError(f"the branch was built for the inputs {expected}; got {got}")
        x = mix_channels(
            self.first, jnp.concatenate([self._channels(name, sensor_values[name]) for name in sorted(sensor_values)])
        )
        for block in self.blocks:
            x = block(x)
        return jnp.moveaxis(mix_channels(self.last, x), 0, 1).reshape(x.shape[1], -1)

    def _channels(self, name: str, values: Array) -> Float[Array, "channels functions *grid"]:
        if values.shape[values.ndim - len(self.grid) :] != self.grid:
            raise ValueError(f"input {name!r} was expected on the grid {self.grid}; got the shape {values.shape}")
        fields = values.reshape(values.shape[0], -1, *self.grid)
        return jnp.moveaxis(fields, 1, 0) * self.scales[name]()
