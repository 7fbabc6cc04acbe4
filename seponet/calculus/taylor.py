r"""Arithmetic on truncated Taylor series: all derivatives of a network along a line in one pass.

A series is an array `[K+1, ...]` of normalised coefficients $f_k = f^{(k)} / k!$. Products are convolutions of
coefficients, and a function that solves an ordinary differential equation, $z = f(x)$ with $z' = g\, x'$, has the
recurrence

$$k\, z_k = \sum_{j=1}^{k} j\, x_j\, g_{k-j},$$

so order K costs O(K^2) elementwise operations, where nested differentiation costs O(2^K). The loops are unrolled:
K is small, and the compiler then fuses each order into one sweep.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from . import sincos as trigonometry

Series = Float[Array, "orders *shape"]
"""Normalised Taylor coefficients, the order as the leading axis."""


@runtime_checkable
class TaylorModule(Protocol):
    """A module with its rule for series: a method `taylor` from `[K+1, ..., in]` to `[K+1, ..., out]`."""

    def taylor(self, series: Any, /) -> Any: ...


def line(points: Float[Array, "*n d"], axis: int, order: int) -> Float[Array, "orders *n d"]:
    """The series, to `order`, of `points` moving with unit speed along coordinate `axis`."""
    if order == 0:
        return points[None]
    unit = np.eye(points.shape[-1])[axis].reshape((1,) * (points.ndim - 1) + (-1,))
    speed = jnp.broadcast_to(jnp.asarray(unit, points.dtype), points.shape)
    return jnp.stack([points, speed, *[jnp.zeros_like(points)] * (order - 1)])


def unnormalise(series: Series) -> Series:
    """Taylor coefficients to derivatives: times k!."""
    factorials = np.array([math.factorial(k) for k in range(series.shape[0])], dtype=np.float64)
    return series * jnp.asarray(factorials.reshape((-1,) + (1,) * (series.ndim - 1)), series.dtype)


def push(module: Callable[[Any], Array], series: Series) -> Float[Array, "orders *out"]:
    """The series of `module` along a series of its input.

    Uses `module.taylor` where it exists. Any other callable is differentiated by nested `jvp`: right for every smooth
    function of an array of this shape, and exponential in the order.
    """
    if isinstance(module, TaylorModule):
        return module.taylor(series)
    return _push_by_jvp(module, series)


def derivatives(module: Callable[[Any], Array], points: Float[Array, " n"], order: int) -> Float[Array, "orders n out"]:
    """Values and derivatives to `order` of a network of one coordinate, `[n, 1] -> [n, out]`, in one pass."""
    return unnormalise(push(module, line(points[:, None], 0, order)))


def partials(
    module: Callable[[Any], Array], points: Float[Array, "n d"], orders: Sequence[int]
) -> Float[Array, "*orders n out"]:
    """All mixed derivatives, to `orders[i]` along coordinate i, of a network `[n, d] -> [n, out]`.

    The result has one leading axis per coordinate: entry `[2, 1]` is the derivative xxy. The coordinate of highest
    order goes through `module.taylor`, the remaining ones by nested `jvp` of that pass.
    """
    if len(orders) != points.shape[-1]:
        raise ValueError(f"expected one order for each of the {points.shape[-1]} coordinates; got {tuple(orders)}")
    axes = sorted(range(len(orders)), key=lambda axis: -orders[axis])
    result = module
    for axis in axes:
        result = _along(result, axis, orders[axis])
    # Each pass prepends its axis, so the leading axes stand in the reverse of the order of passes.
    return jnp.moveaxis(result(points), range(len(axes)), axes[::-1])


def _along(function: Callable[[Any], Array], axis: int, order: int) -> Callable[[Any], Array]:
    return lambda points: unnormalise(push(function, line(points, axis, order)))


def _push_by_jvp(function: Callable[[Any], Array], series: Series) -> Array:
    def curve(t: Array) -> tuple[Array, ...]:
        return (function(reduce(lambda total, coefficient: total * t + coefficient, reversed(list(series)))),)

    def differentiate(known: Callable[[Array], tuple[Array, ...]]) -> Callable[[Array], tuple[Array, ...]]:
        def longer(t: Array) -> tuple[Array, ...]:
            values, slopes = jax.jvp(known, (t,), (jnp.ones_like(t),))
            return (*values, slopes[-1])

        return longer

    jet: Callable[[Array], tuple[Array, ...]] = curve
    for _ in range(series.shape[0] - 1):
        jet = differentiate(jet)
    values = jet(jnp.zeros((), series.dtype))
    return jnp.stack([value / math.factorial(k) for k, value in enumerate(values)])


def shift(series: Series, constant: Array | float) -> Series:
    """Add a constant: only order zero changes. Written so that no zeros are added to the higher orders."""
    value, *rest = jax.lax.split(series, (1, series.shape[0] - 1)) if series.shape[0] > 1 else (series,)
    return jnp.concatenate([value + constant, *rest])


def multiply(a: Series, b: Series) -> Series:
    """The product of two series of the same length."""
    a_, b_ = _orders(a), _orders(b)
    return jnp.stack([_convolve(a_, b_, k) for k in range(len(a_))])


def square(a: Series) -> Series:
    """The square, with half the multiplications of a product."""
    a_ = _orders(a)
    return jnp.stack([_convolve_self(a_, k) for k in range(len(a_))])


def exp(x: Series) -> Series:
    r"""$z' = z\, x'$."""
    x_0, speed = _start(x)
    z = [jnp.exp(x_0)]
    for k in range(1, len(speed)):
        z.append(_advance(speed, z, k))
    return jnp.stack(z)


def sin_cos(x: Series) -> tuple[Series, Series]:
    r"""Both at once, as each is the other's slope: $s' = c\, x'$, $c' = -s\, x'$."""
    x_0, speed = _start(x)
    s_0, c_0 = trigonometry.sin_cos(x_0)
    s, c = [s_0], [c_0]
    for k in range(1, len(speed)):
        s_k, c_k = _advance(speed, c, k), -_advance(speed, s, k)
        s.append(s_k)
        c.append(c_k)
    return jnp.stack(s), jnp.stack(c)


def sin(x: Series) -> Series:
    return sin_cos(x)[0]


def cos(x: Series) -> Series:
    return sin_cos(x)[1]


def tanh(x: Series) -> Series:
    r"""$z' = (1 - z^2)\, x'$."""
    x_0, speed = _start(x)
    z = [jnp.tanh(x_0)]
    slope = [1 - z[0] * z[0]]
    for k in range(1, len(speed)):
        z.append(_advance(speed, slope, k))
        slope.append(-_convolve_self(z, k))
    return jnp.stack(z)


def gelu(x: Series) -> Series:
    r"""$\tfrac12 x\, (1 + \tanh(\sqrt{2/\pi}\, (x + 0.044715\, x^3)))$, the default form of `jax.nn.gelu`."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * multiply(square(x), x))
    return 0.5 * multiply(x, shift(tanh(inner), 1.0))


def _orders(x: Array) -> list[Array]:
    """The coefficients one by one. The transpose of a split is one concatenation, where that of K+1 slices would be
    K+1 arrays padded with zeros and added up."""
    return [part.reshape(x.shape[1:]) for part in jax.lax.split(x, (1,) * x.shape[0])]


def _start(x: Array) -> tuple[Array, list[Array]]:
    """The value x_0 and the coefficients j x_j, from j = 0."""
    orders = _orders(x)
    return orders[0], [j * x_j for j, x_j in enumerate(orders)]


def _advance(speed: Sequence[Array], slope: Sequence[Array], k: int) -> Array:
    """Coefficient k of z where z' = slope * x'."""
    return reduce(add, [speed[j] * slope[k - j] for j in range(1, k + 1)]) / k


def _convolve(a: Sequence[Array], b: Sequence[Array], k: int) -> Array:
    return reduce(add, [a[j] * b[k - j] for j in range(k + 1)])


def _convolve_self(a: Sequence[Array], k: int) -> Array:
    middle = [a[k // 2] * a[k // 2]] if k % 2 == 0 else []
    return reduce(add, [*middle, *(2 * a[j] * a[k - j] for j in range((k + 1) // 2))])
