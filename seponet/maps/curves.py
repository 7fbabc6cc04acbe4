"""Curves and walls that maps are made of: functions with names for arguments, and curves through points."""

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..mapped import arguments

Length = float | str | Callable[..., Any]
"""A radius or a height: a number, the name of an input, or a function of axes and inputs, by name."""

Curve = Callable[..., Any] | np.ndarray | Sequence[Any]
"""A curve in the plane: a function of its parameter that returns (x, y), or points on it, `[n, 2]`."""


class Named:
    """A function together with the names of its arguments, for `Mapped`."""

    def __init__(self, names: Sequence[str], function: Callable[..., Any]) -> None:
        self.names, self.function = tuple(dict.fromkeys(names)), function
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in self.names])

    def __call__(self, *values: Any) -> Any:
        return self.function(*values)

    def of(self, values: dict[str, Any]) -> Any:
        """The value for arguments by name."""
        return self.function(*(values[name] for name in self.names))


def length(given: Length, what: str) -> Named:
    """A radius or a height as a named function."""
    if isinstance(given, str):
        return Named((given,), lambda value: value)
    if callable(given):
        return Named(arguments(given), given)
    if not isinstance(given, int | float | np.number) or not np.isfinite(number := float(given)):
        raise ValueError(f"{what} is a number, the name of an input, or a function of axes and inputs; got {given!r}")
    return Named((), lambda: number)


def combine(names: Sequence[str], parts: Sequence[Named], function: Callable[..., Any]) -> Named:
    """A function of axes (`names`) and of the values of other named functions."""
    all_names = tuple(dict.fromkeys((*names, *(name for part in parts for name in part.names))))

    def combined(*values: Any) -> Any:
        known = dict(zip(all_names, values, strict=True))
        return function(*(known[name] for name in names), *(part.of(known) for part in parts))

    return Named(all_names, combined)


def closed_curve(given: Any, axis: str, what: str, period: float) -> tuple[Named, Named]:
    """The coordinates of a closed curve as functions of an angle: of one that is given by its distance from the origin
    (see `Length`), by a function of the angle that returns (x, y), or by points on it, through which trigonometric
    polynomials are laid."""
    if isinstance(given, np.ndarray | list | tuple):
        points = _points(given, what, closed=True)
        return tuple(Named((axis,), _Trigonometric(points[:, i], period)) for i in (0, 1))  # pyright: ignore[reportReturnType]
    if callable(given) and _is_curve(given):
        named = Named(arguments(given), given)
        curve: Callable[..., Any] = given
        return Named(named.names, lambda *v: curve(*v)[0]), Named(named.names, lambda *v: curve(*v)[1])
    radius = length(given, what)
    return (
        combine((axis,), (radius,), lambda angle, r: r * jnp.cos(angle)),
        combine((axis,), (radius,), lambda angle, r: r * jnp.sin(angle)),
    )


def open_curve(given: Curve, what: str) -> Callable[[Any], tuple[Any, Any]]:
    """A curve over [0, 1]: a function that returns (x, y), or a quintic spline through points, by their distances."""
    if callable(given):
        if len(arguments(given)) != 1:
            raise ValueError(f"{what} must be a function of one parameter from 0 to 1; got {arguments(given)}")
        return given
    points = _points(given, what, closed=False)
    chords = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    if np.any(np.diff(chords) <= 0):
        raise ValueError(f"{what} has the same point twice in a row")
    x, y = (_Spline(chords / chords[-1], points[:, i]) for i in (0, 1))
    return lambda p: (x(p), y(p))


def _is_curve(function: Callable[..., Any]) -> bool:
    """Whether a function of an angle returns two coordinates: it is tried at single numbers."""
    try:
        value = function(*(jnp.asarray(0.5) for _ in arguments(function)))
    except Exception:
        return False
    return isinstance(value, tuple | list) and len(value) == 2


def _points(given: Any, what: str, *, closed: bool) -> np.ndarray:
    points: Any = np.zeros(0)
    with suppress(TypeError, ValueError):
        points = np.asarray(given, np.float64)
    least = 3 if closed else 2
    if points.ndim != 2 or points.shape[1] != 2 or len(points) < least or not np.all(np.isfinite(points)):
        raise ValueError(f"{what} needs at least {least} points, an array [n, 2]; got the shape {points.shape}")
    return points


class _Trigonometric:
    """The trigonometric polynomial through values at equally spaced angles."""

    def __init__(self, values: np.ndarray, period: float) -> None:
        n = len(values)
        modes = np.fft.rfft(values) / n
        factor = np.full(len(modes), 2.0)
        factor[0] = 1.0
        if n % 2 == 0:
            factor[-1] = 1.0
        self.cosines, self.sines = factor * modes.real, -factor * modes.imag
        self.wavenumbers = 2 * np.pi / period * np.arange(len(modes))

    def __call__(self, angle: Array) -> Array:
        # By names of its own, not by sums over axes: a map is elementwise.
        phases = angle[..., None] * jnp.asarray(self.wavenumbers, angle.dtype).reshape((1,) * angle.ndim + (-1,))
        shape = (1,) * angle.ndim + (-1,)
        cosines, sines = (jnp.asarray(c, angle.dtype).reshape(shape) for c in (self.cosines, self.sines))
        return jnp.sum(cosines * jnp.cos(phases) + sines * jnp.sin(phases), axis=-1)


class _Spline:
    """The spline through values at given parameters: quintic, or of the highest odd degree that the points allow."""

    def __init__(self, parameters: np.ndarray, values: np.ndarray) -> None:
        from scipy.interpolate import PPoly, make_interp_spline

        degree = next(k for k in (5, 3, 1) if len(values) > k)
        spline = PPoly.from_spline(make_interp_spline(parameters, values, k=degree))
        proper = np.diff(spline.x) > 0
        self.starts, self.taylor = spline.x[:-1][proper], spline.c[:, proper]

    def __call__(self, p: Array) -> Array:
        p = jnp.asarray(p)
        starts = jnp.asarray(self.starts[1:], p.dtype).reshape((1,) * p.ndim + (-1,))
        cell = jnp.sum((p[..., None] >= starts).astype(jnp.int32), axis=-1)
        local = p - jnp.asarray(self.starts, p.dtype)[cell]
        total = jnp.zeros_like(p)
        for row in self.taylor:
            total = total * local + jnp.asarray(row, p.dtype)[cell]
        return total
