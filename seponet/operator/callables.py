"""Callables as inputs: their samples on a grid, and how far they are from the interpolant of these between them."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Float64

from ..functions import Functions, Space
from ..functions.interpolant import interpolate
from ..locations import Grid

OFF = 0.382
"""How far from the samples a callable is looked at again, in spacings: not half-way, where waves may vanish as they do
at the samples."""


def callables_in(value: Any) -> list[Callable[..., Any]]:
    """The callables in what a user gave for one input, which is one of them or a list of them; else none. Arrays and
    batches of functions can be called too, but are what they are."""
    listed = list(value) if isinstance(value, list | tuple) else [value]
    plain = all(callable(v) and not isinstance(v, Functions) and not hasattr(v, "shape") for v in listed)
    return listed if plain else []


def sample(name: str, space: Space, counts: Mapping[str, int], function: Callable[..., Any]) -> np.ndarray:
    """The values of a callable on a uniform grid, `[*components, *grid]`."""
    grid = space.sensors(_fine(space, counts))
    return _values(name, space, function, [np.asarray(p, np.float64) for p in grid.points])


def between_samples(
    name: str, space: Space, counts: Mapping[str, int], given: Sequence[Callable[..., Any]], read: Functions
) -> Float64[np.ndarray, " functions"]:
    """How far callables are from the interpolants of their samples, off the samples: relative, in mean squares.

    **Arguments:**

    - `name`, `space`, `counts`: of the input, as for `sample`.
    - `given`, `read`: the callables, and what was made of them.
    """
    points = [_beside(np.asarray(p, np.float64)) for p in space.sensors(_fine(space, counts)).points]
    where = Grid.of(space.domain, {axis: jax.device_put(p) for axis, p in zip(space.domain, points, strict=True)})
    found = np.asarray(read(where), np.float64)
    found = found if space.components is None else np.swapaxes(found, 0, 1)
    true = np.stack([_values(name, space, function, points) for function in given])
    axes = tuple(range(1, true.ndim))
    # A spike at a sample is zero beside it: relative to the larger one of the two, that is a difference like any other.
    size = np.sqrt(np.mean(np.maximum(true**2, found**2), axis=axes))
    apart = np.sqrt(np.mean((true - found) ** 2, axis=axes))
    return apart / np.where(size > 0, size, 1.0)


def from_half_the_samples(space: Space, counts: Mapping[str, int], read: Functions) -> Functions:
    """What would have been read from every second sample, in the same space of interpolants: a program that is compiled
    for the one takes the other."""
    fine = _fine(space, counts)
    few = {axis: n // 2 if space.domain.axis(axis).periodic else (n + 1) // 2 for axis, n in fine.items()}
    for grid in (space.sensors(few), space.sensors(fine)):
        values: Float[jnp.ndarray, "..."] = read(grid)
        read = interpolate(space, values if space.components is None else jnp.swapaxes(values, 0, 1))
    return read


def _fine(space: Space, counts: Mapping[str, int]) -> dict[str, int]:
    """How many samples there are along each axis. The sensors are among them, so what the branch sees is not
    interpolated."""
    least = 256 if len(space.domain) == 1 else 64
    times = {axis: math.ceil(least / count) for axis, count in counts.items()}
    return {
        axis: times[axis] * count if space.domain.axis(axis).periodic else times[axis] * (count - 1) + 1
        for axis, count in counts.items()
    }


def _beside(points: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """As many points as there are samples, inside of the axis and none of them a sample."""
    step = OFF * (points[1] - points[0])
    return np.append(points[:-1] + step, points[-1] - step)


def _values(name: str, space: Space, function: Callable[..., Any], along: Sequence[np.ndarray]) -> np.ndarray:
    points = np.meshgrid(*along, indexing="ij")
    shape = (() if space.components is None else (space.components,)) + tuple(len(p) for p in along)
    try:
        values = np.asarray(function(*points))
    except Exception as error:
        called = f"input {name!r} was called with arrays for {', '.join(space.domain) or 'nothing'}"
        raise ValueError(f"{called} and failed with {type(error).__name__}: {error}") from error
    if values.dtype.kind not in "biuf":
        raise ValueError(f"input {name!r} must return real numbers; got {values.dtype}")
    values = values.astype(np.float64)
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(
            f"input {name!r} was called with arrays of shape {points[0].shape if points else ()} for "
            f"{', '.join(space.domain) or 'nothing'} and must return the shape {shape}; got {values.shape}"
        ) from None
