"""What stands in front of a network: features of coordinates, and the composition of modules."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..calculus import taylor


class PeriodicFeatures(eqx.Module):
    r"""$x \mapsto [1, \cos\omega_1 x', \dots, \cos\omega_m x', \sin\omega_1 x', \dots, \sin\omega_m x']$ with
    $x' = x - \text{lower}$ and $\omega_k = 2\pi k / \text{length}$: whatever follows is exactly periodic.

    **Arguments:**

    - `lower`, `length`: the start and the length of one period.
    - `count`: the number m of wavenumbers; there are 2m + 1 features.
    """

    lower: float = eqx.field(static=True)
    length: float = eqx.field(static=True)
    count: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not self.length > 0:
            raise ValueError(f"periodic features need a positive period length; got {self.length}")
        if self.count < 1:
            raise ValueError(f"periodic features need at least one wavenumber; got count={self.count}")

    @property
    def in_size(self) -> int:
        return 1

    @property
    def out_size(self) -> int:
        return 2 * self.count + 1

    def __call__(self, x: Float[Array, "*n 1"]) -> Float[Array, "*n features"]:
        angle = (x - self.lower) * self._frequencies(x)
        return jnp.concatenate([jnp.ones_like(x), jnp.cos(angle), jnp.sin(angle)], axis=-1)

    def taylor(self, series: Float[Array, "orders *n 1"]) -> Float[Array, "orders *n features"]:
        sin, cos = taylor.sin_cos(taylor.shift(series, -self.lower) * self._frequencies(series))
        one = taylor.shift(jnp.zeros_like(series), 1.0)
        return jnp.concatenate([one, cos, sin], axis=-1)

    def _frequencies(self, like: Array) -> Array:
        frequencies = 2 * np.pi / self.length * np.arange(1, self.count + 1)
        return jnp.asarray(frequencies.reshape((1,) * (like.ndim - 1) + (-1,)), like.dtype)


class Affine(eqx.Module):
    """The interval from `lower` to `upper`, mapped to [-1, 1]; every entry of the last axis alike."""

    lower: float = eqx.field(static=True)
    upper: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not self.lower < self.upper:
            raise ValueError(f"an interval needs lower < upper; got ({self.lower}, {self.upper})")

    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        return (x - (self.lower + self.upper) / 2) * (2 / (self.upper - self.lower))

    def taylor(self, series: Float[Array, "orders *n d"]) -> Float[Array, "orders *n d"]:
        return taylor.shift(series, -(self.lower + self.upper) / 2) * (2 / (self.upper - self.lower))


class Coordinatewise(eqx.Module):
    """One module per coordinate: module i sees column i alone, `[..., 1] -> [..., m_i]`, and the results are joined.

    It puts, for instance, periodic features on the periodic axes of a network of all coordinates.
    """

    modules: tuple[Callable[[Any], Array], ...]

    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n features"]:
        columns = self._columns(x)
        return jnp.concatenate([module(c) for module, c in zip(self.modules, columns, strict=True)], axis=-1)

    def taylor(self, series: Float[Array, "orders *n d"]) -> Float[Array, "orders *n features"]:
        columns = self._columns(series)
        return jnp.concatenate(
            [taylor.push(module, c) for module, c in zip(self.modules, columns, strict=True)], axis=-1
        )

    def _columns(self, x: Array) -> list[Array]:
        if x.shape[-1] != len(self.modules):
            raise ValueError(
                f"there is one module for each of {len(self.modules)} coordinates; got points with {x.shape[-1]}"
            )
        return jnp.split(x, len(self.modules), axis=-1)


class Chain(eqx.Module):
    """Modules applied one after the other. `Chain(())` is the identity.

    ```python
    trunk = Chain((PeriodicFeatures(0.0, 1.0, 5), MLP(11, 64, width=64, depth=4, key=key)))
    ```
    """

    modules: tuple[Callable[[Any], Array], ...]

    def __check_init__(self) -> None:
        for first, second in zip(self.modules, self.modules[1:], strict=False):
            # Modules may be any callables; those that know their sizes are checked.
            out_size, in_size = getattr(first, "out_size", None), getattr(second, "in_size", None)
            if out_size is not None and in_size is not None and out_size != in_size:
                raise ValueError(
                    f"{type(first).__name__} returns {out_size} features and {type(second).__name__} expects "
                    f"{in_size}; make the two sizes agree"
                )

    def __call__(self, x: Float[Array, "*n in"]) -> Float[Array, "*n out"]:
        for module in self.modules:
            x = module(x)
        return x

    def taylor(self, series: Float[Array, "orders *n in"]) -> Float[Array, "orders *n out"]:
        for module in self.modules:
            series = taylor.push(module, series)
        return series
