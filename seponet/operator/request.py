"""What is asked of an operator: where, and which fields or derivatives; checked before anything is computed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float64

from .._machine import host_memory
from .._text import did_you_mean
from ..calculus.model import Sensors
from ..domain import Domain
from ..equations.problem import Problem
from ..equations.symbols import Symbol
from ..locations import Grid, Location, Points

HIGHEST = 8
"""The highest derivative that is evaluated: each order costs a digit or two."""


SMALL = 1 << 26
"""Bytes that are there without asking."""


def check_size(counts: Mapping[str, int], arrays: int = 1) -> None:
    """Refuse a grid whose values would not fit in memory, before anything is computed.

    **Arguments:**

    - `counts`: the number of points along each axis.
    - `arrays`: how many arrays there will be, of all functions and fields.
    """
    needed = 8 * arrays * math.prod(counts.values())
    # Asking how much is free takes as long as predicting ten functions.
    if needed > SMALL and needed > (available := host_memory()):
        grid = " x ".join(f"{name} {count:,}" for name, count in counts.items())
        raise ValueError(
            f"{arrays} field{'s' if arrays > 1 else ''} on the grid {grid} would take {needed / 2**30:,.1f} GiB, and "
            f"{available / 2**30:.1f} GiB are free: ask for fewer points or functions at a time"
        )


def read_coordinate(name: str, value: Any) -> Float64[np.ndarray, "*_"]:
    """The points along an axis that a user gives, as numbers; dates are none."""
    try:
        if np.asarray(value).dtype.kind not in "biufO":
            raise TypeError
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"the coordinate {name!r} must be numbers; got {type(value).__name__}") from None


def locate(domain: Domain, given: Mapping[str, Any], *, points: bool = False) -> tuple[Location, dict[str, np.ndarray]]:
    """The grid, or the scattered points, that coordinates describe; a `ValueError` says what is wrong with them.

    **Returns:** the location, and the coordinates as float64 arrays; a number stays one, without an axis.
    """
    if set(given) == set(domain.physical_names) != set(domain):
        raise ValueError(
            f"{', '.join(domain.physical_names)} are coordinates of a map: a grid is one of its box, whose axes are "
            f"{', '.join(domain)}; for single points by coordinates pass points=True"
        )
    if set(given) != set(domain):
        raise ValueError(f"coordinates are needed for the axes {', '.join(domain)}; got {', '.join(given) or 'none'}")
    arrays: dict[str, np.ndarray] = {}
    for name, axis in domain.axes:
        array = read_coordinate(name, given[name])
        if array.ndim > 1 or not array.size:
            raise ValueError(f"the coordinate {name!r} must be a number or a list of them; got the shape {array.shape}")
        slack = 1e-6 * axis.length
        wrong = ~((array >= axis.lower - slack) & (array <= axis.upper + slack))
        if np.any(wrong):
            raise ValueError(
                f"the coordinate {name!r} must lie in [{axis.lower:g}, {axis.upper:g}]; got {array[wrong].flat[0]:g}"
                + (" (wrap it round the circle first)" if axis.periodic else "")
            )
        arrays[name] = array
    if not points:
        check_size({name: array.size for name, array in arrays.items()})
        return Grid.of(domain, {name: jax.device_put(np.array(a, ndmin=1)) for name, a in arrays.items()}), arrays
    sizes = {a.shape[0] for a in arrays.values() if a.ndim} or {1}
    if len(sizes) > 1:
        listed = ", ".join(f"{a.size} of {name}" for name, a in arrays.items())
        raise ValueError(f"points need as many coordinates along every axis; got {listed} (points=False makes a grid)")
    (size,) = sizes
    arrays = {name: np.broadcast_to(a, (size,)) for name, a in arrays.items()}
    return Points.of(domain, {name: jax.device_put(np.array(a)) for name, a in arrays.items()}), arrays


def requested_symbols(
    problem: Problem, derivative: str | Sequence[str] | None, field: str | None
) -> tuple[Symbol, ...]:
    """What is to be evaluated: the fields, one of them, or the derivatives that are named.

    **Arguments:**

    - `derivative`: one name like `"s_x"`, or several; None for the fields themselves.
    - `field`: one of several fields; None for all.
    """
    fields = problem.fields
    if not isinstance(field, str | None):
        raise ValueError(f"field must be a name, one of {', '.join(fields)}; got a {type(field).__name__}")
    if field is not None and field not in fields:
        hint = did_you_mean(field, fields)
        raise ValueError(f"there is no field {field!r}{hint}; the fields are {', '.join(fields)}")
    eligible = fields if field is None else (field,)
    if derivative is None:
        return tuple(Symbol("field", name) for name in eligible)
    names = (derivative,) if isinstance(derivative, str) else derivative
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"derivative must be a name like `{eligible[0]}_x`, or a list of them; got {derivative!r:.60}")
    symbols = tuple(dict.fromkeys(problem.vocabulary.parse(name) for name in names))
    for symbol in symbols:
        if sum(order for _, order in symbol.alpha) > HIGHEST:
            raise ValueError(f"`{symbol}` is beyond derivatives of order {HIGHEST}, of which rounding leaves nothing")
        if symbol.kind != "field" or symbol.name not in eligible:
            raise ValueError(
                f"`{symbol}` is not a derivative of {', '.join(eligible)}; write for instance `{eligible[0]}_x`"
            )
    return symbols


def sensors_of(problem: Problem, sensors: Sensors) -> dict[str, dict[str, int]]:
    """For each input of a problem the number of a model's sensors along each axis."""
    # An input that the branch doesn't see, but functions that are derived from it, takes the counts of its axes.
    declared = {name: dict(counts) for name, counts in sensors}
    by_axis = {axis: n for counts in declared.values() for axis, n in counts.items()}
    spaces = problem.inputs
    return {name: declared.get(name) or {a: by_axis[a] for a in space.domain} for name, space in spaces.items()}
