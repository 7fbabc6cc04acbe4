"""Maps that fold: det J changes its sign, and a point has two places in the box, or none."""

from collections.abc import Callable, Mapping
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._precision import double_precision
from ..domain import Interval
from ..functions import Functions
from ..locations import Evaluable, Grid
from .chart import Chart

POINTS = {1: 96, 2: 24, 3: 10}
"""Points along each axis that det J is looked at, for as many axes as it varies along; 6 for more."""

EDGE = 1e-3
"""How far from the ends of an axis, relative to its length, the outermost points are: at a pole det J vanishes."""


def folded(chart: Chart, functions: Mapping[str, Evaluable]) -> Bool[Array, " functions"]:
    """Which functions have a shape that folds: det J has not one sign. May be traced."""
    return jnp.min(_relative(chart, functions), axis=-1) <= 0.0


def unfolded(chart: Chart, functions: Mapping[str, Functions], count: int) -> dict[str, Functions]:
    """The first `count` of a few more functions whose shapes do not fold; may be traced, so it can't refuse: if there
    are fewer, they are repeated."""
    bad = folded(chart, functions)
    order = jnp.argsort(bad, stable=True)
    rows = order[jnp.arange(count) % jnp.maximum(jnp.sum(~bad), 1)]
    return {name: f[rows] for name, f in functions.items()}


def describe_folds(chart: Chart, functions: Mapping[str, Evaluable]) -> tuple[float, str]:
    """The share of shapes that fold, and in words which share and where; empty if none does."""
    least, places = worst_points(chart, functions)
    bad = np.flatnonzero(~(least > 0.0))
    if not len(bad):
        return 0.0, ""
    worst = int(bad[np.argmin(np.nan_to_num(least[bad], nan=-np.inf))])
    inputs = " and ".join(chart.shapes)
    return len(bad) / len(least), (
        f"{len(bad)} of {len(least)} shapes fold ({100 * len(bad) / len(least):.2g}%): det J is zero or changes its "
        f"sign, for function {worst} at {at_point(places[worst])}; make {inputs} smaller or smoother, or the map one "
        "that bears them"
    )


def refuse_folds(chart: Chart | None, functions: Mapping[str, Evaluable]) -> None:
    """Refuse given shapes that fold: a solution there would be one of another problem."""
    if chart is not None and chart.shapes:
        _, text = describe_folds(chart, functions)
        if text:
            raise ValueError(f"of the given shapes, {text}")


def worst_points(
    chart: Chart, functions: Mapping[str, Evaluable]
) -> tuple[Float[np.ndarray, " functions"], list[dict[str, float]]]:
    """For each function the least det J, relative to its mean, and where in the box that is."""
    relative = np.asarray(_compiled(chart)({name: functions[name] for name in chart.shapes}))
    grid = _grid(chart)
    places = [np.unravel_index(i, grid.shape) for i in np.argmin(relative, axis=-1)]
    found = [
        {
            name: float(points[i])
            for name, points, i in zip(grid.names, grid.points, place, strict=True)
            if len(points) > 1
        }
        for place in places
    ]
    return np.min(relative, axis=-1), found


def check_fixed_map(chart: Chart) -> None:
    """Refuse a map that depends on no input and folds, or whose coordinates are not those of one point where a
    periodic axis closes."""
    if chart.shapes:
        return
    with double_precision():
        (least,), (where,) = worst_points(chart, {})
        if not least > 0.0:
            raise ValueError(
                f"the map folds: det J is {'not a number' if np.isnan(least) else 'zero or changes its sign'} at "
                f"{at_point(where)}, so that points of the box lie on top of each other; change the coordinates "
                f"{', '.join(chart.mapped)}"
            )
        check_closing(chart, {})


def check_closing(chart: Chart, functions: Mapping[str, Evaluable]) -> None:
    """Refuse a map that tears the domain where a periodic axis closes."""
    for axis in chart.domain.replaced:
        interval = chart.domain.axis(axis)
        if not interval.periodic:
            continue
        given = {name: functions[name] for name in chart.shapes}
        inside = chart.compiled_locate(given, _grid(chart))
        size = max(float(np.ptp(np.asarray(inside[name]))) for name in chart.mapped)
        ends = [chart.compiled_locate(given, _grid(chart).fix(axis, at)) for at in (interval.lower, interval.upper)]
        for name in chart.mapped:
            lower, upper = (np.asarray(end[name]) for end in ends)
            if np.max(np.abs(upper - lower)) > 1e-6 * size:
                raise ValueError(
                    f"{axis} is periodic, but the coordinate {name} is not the same at {axis} = {interval.lower:g} and "
                    f"{interval.upper:g}: make the axis an interval, or the coordinate periodic"
                )


def at_point(where: Mapping[str, float]) -> str:
    """A point of the box in words."""
    return ", ".join(f"{name} = {value:.3g}" for name, value in where.items())


@cache
def _compiled(chart: Chart) -> Callable[[Mapping[str, Evaluable]], Array]:
    return jax.jit(lambda functions: _relative(chart, functions))


def _relative(chart: Chart, functions: Mapping[str, Evaluable]) -> Float[Array, "functions points"]:
    determinant = chart.determinant(functions, _grid(chart))
    flat = jnp.broadcast_to(determinant, (determinant.shape[0], *_grid(chart).shape)).reshape(len(determinant), -1)
    return flat / jnp.mean(flat, axis=-1, keepdims=True)


def _grid(chart: Chart) -> Grid:
    varying = tuple(axis for axis in chart.domain if axis in chart.domain.replaced or chart.moves_with(axis))
    count = POINTS.get(len(varying), 6)
    points = {n: _points(axis, count if n in varying else 1) for n, axis in chart.domain.axes}
    # Constants of a traced program, so that the bases of the inputs are tabulated rather than computed in it.
    with jax.ensure_compile_time_eval():
        return Grid.of(chart.domain, {name: jnp.asarray(p, float) for name, p in points.items()})


@cache
def _points(axis: Interval, count: int) -> Float[np.ndarray, " count"]:
    if count == 1:
        return np.array([axis.lower + axis.length / 2])
    return axis.lower + axis.length * np.linspace(EDGE, 1 - EDGE, count)
