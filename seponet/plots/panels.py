"""Panels that several pictures share: which axes go where, input functions, and one slice of a solution."""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import NonUniformImage

from .._precision import double_precision
from ..drawing.style import (
    INK,
    LINES,
    Scale,
    add_colour_bar,
    draw_map,
    draw_shape,
    few_ticks,
    scale_of,
    style_axes,
    style_lines,
    symbol,
)
from ..equations.problem import Problem
from ..functions import as_callable
from ..locations import Grid
from .case import Case
from .quantity import SPEED, VORTICITY, derive

TIME = "t"


@dataclass(frozen=True)
class Arrangement:
    """Where the axes of a solution go in a picture.

    - `across`, `up`: the axes of a map; `up` is None where a line is all there is.
    - `along`: the axis along which a solution of three variables or more is cut into snapshots.
    - `fixed`: for the remaining axes the index at which they are held, the middle.
    """

    names: tuple[str, ...]
    across: str
    up: str | None
    along: str | None
    fixed: Mapping[str, int]

    def cut(self, values: np.ndarray, at: int = 0) -> np.ndarray:
        """The slice to be drawn, `[up, across]` or `[across]`; `at` is the index along `along`."""
        index = {**self.fixed, **({self.along: at} if self.along is not None else {})}
        values = values[tuple(index.get(name, slice(None)) for name in self.names)]
        left = [name for name in self.names if name not in index]
        return values if self.up is None or left == [self.up, self.across] else values.T

    def note(self, points: Mapping[str, np.ndarray]) -> str:
        """Where the axes are held that are not shown."""
        return ", ".join(f"{symbol(name)} = {points[name][i]:.3g}" for name, i in self.fixed.items())


def arrange(problem: Problem, points: Mapping[str, np.ndarray]) -> Arrangement:
    """Space is horizontal and time vertical where there are two axes; time is cut where there are more."""
    names = tuple(problem.domain)
    free = [name for name in names if points[name].shape[0] > 1]
    fixed = {name: points[name].shape[0] // 2 for name in names if name not in free}
    if not free:
        raise ValueError("there is nothing to draw: the grid has a single point; give at least one axis more points")
    if len(free) == 1:
        return Arrangement(names, free[0], None, None, fixed)
    if len(free) == 2:
        across, up = reversed(free) if free[0] == TIME else free
        return Arrangement(names, across, up, None, fixed)
    along = TIME if TIME in free else free[0]
    across, up, *rest = (name for name in free if name != along)
    fixed |= {name: points[name].shape[0] // 2 for name in rest}
    return Arrangement(names, across, up, along, fixed)


def draw_slice(
    axes: Axes, case: Case, arrangement: Arrangement, values: np.ndarray, scale: Scale, title: str, at: int = 0
) -> NonUniformImage | QuadMesh:
    """A map of one slice `[up, across]`, labelled, in the true shape of a mapped domain; `at` is the index along
    `arrangement.along`. A periodic axis that comes without its upper end is closed."""
    across, up = arrangement.across, arrangement.up or ""
    placed = _place(case, arrangement, at)
    if len(placed) == 2:
        (x, y) = placed
        image = draw_shape(axes, placed[x], placed[y], values, scale)
        style_axes(axes, title, symbol(x), symbol(y))
        return image
    image = draw_map(axes, *close_periodic_axes(case, arrangement, values), scale, square=TIME not in (across, up))
    style_axes(axes, title, symbol(across), symbol(up))
    return image


def close_periodic_axes(
    case: Case, arrangement: Arrangement, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A slice with the first point of each periodic axis repeated at its end, so that no gap is drawn.

    **Returns:** the points across, the points up, and the values `[up, across]`.
    """
    values, across = _close(case, arrangement.across, values, 1)
    values, up = _close(case, arrangement.up or "", values, 0)
    return across, up, values


def draw_inputs(figure: Figure | SubFigure, panels: list[Axes], case: Case, quantity: str) -> None:
    """Each input that is a function, one to a panel: a line, or a map with its own colour bar."""
    for axes, (name, values) in zip(panels, _input_values(case, quantity).items(), strict=True):
        names = case.inputs[name].space.domain.names
        along = _input_points(case, name)
        if len(names) == 1:
            points = along[0]
            for i, line in enumerate(np.atleast_2d(values)):
                axes.plot(points, line, color=LINES[i], linewidth=1.3)
            axes.set_xlim(float(points[0]), float(points[-1]))
            style_lines(axes, f"input {symbol(name)}", symbol(names[0]), f"{symbol(name)}({symbol(names[0])})")
            few_ticks(axes)
            continue
        held = (slice(None), slice(None), *(n // 2 for n in values.shape[2:]))
        view = Arrangement(names[:2], names[0], names[1], None, {})
        shown = view.cut(values[held])
        title = f"input {symbol(name)}"
        if case.inputs[name].space.components is not None:
            title += f" ({VORTICITY if quantity == VORTICITY else 'magnitude'})"
        if all(axis in case.points for axis in names[:2]):
            across, up, shown = close_periodic_axes(case, view, shown)
        else:
            across, up = along[:2]
        image = draw_map(axes, across, up, shown, scale_of(shown), square=TIME not in names[:2])
        style_axes(axes, title, symbol(names[0]), symbol(names[1]))
        add_colour_bar(figure, image, axes)


def count_inputs(case: Case) -> int:
    """How many panels `draw_inputs` needs."""
    return sum(len(functions.space.domain) > 0 for functions in case.inputs.values())


def describe_numbers(case: Case) -> str:
    """Inputs that are numbers or vectors, as text."""
    parts = []
    for name, functions in case.inputs.items():
        if not len(functions.space.domain):
            numbers = np.atleast_1d(np.squeeze(as_callable(functions)()))
            text = ", ".join(f"{number:.3g}" for number in numbers)
            parts.append(f"{symbol(name)} = {text if numbers.size == 1 else f'({text})'}")
    return ", ".join(parts)


def draw_lines(axes: Axes, points: np.ndarray, lines: Mapping[str, np.ndarray], title: str, across: str) -> None:
    """Lines over one axis: the first one solid, further ones dashed on top of it."""
    for (label, values), colour, dashes in zip(lines.items(), LINES, ("-", "--", ":"), strict=False):
        axes.plot(points, values, dashes, color=colour, linewidth=1.5, label=label)
    axes.set_xlim(float(points[0]), float(points[-1]))
    style_lines(axes, title, symbol(across))
    few_ticks(axes)
    if len(lines) > 1:
        axes.legend(fontsize=8, frameon=False)


def error_over(case: Case, along: str) -> np.ndarray:
    """The relative error of all fields together at each point of an axis, as a fraction."""
    other = tuple(i for i, name in enumerate(case.problem.domain) if name != along)
    fields = case.predicted or case.reference
    pairs = [
        (np.asarray(case.reference[field], np.float64), np.asarray(fields[field], np.float64))
        for field in case.problem.fields
    ]
    wrong = sum(np.sum((predicted - exact) ** 2, axis=other) for exact, predicted in pairs)
    size = sum(np.sum(exact**2, axis=other) for exact, _ in pairs)
    return np.sqrt(wrong / np.where(size > 0, size, np.inf))


def draw_error_over(axes: Axes, case: Case, along: str) -> None:
    """The relative error in percent against one axis."""
    axes.plot(case.points[along], 100 * error_over(case, along), color=INK, linewidth=1.3)
    axes.set_xlim(float(case.points[along][0]), float(case.points[along][-1]))
    axes.set_ylim(bottom=0)
    style_lines(axes, f"error over {symbol(along)}", symbol(along), "relative $L^2$ error (%)")
    few_ticks(axes)


def _close(case: Case, name: str, values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    points, interval = case.points[name], case.problem.domain.axis(name)
    end = points[0] + interval.length
    if not interval.periodic or not 1e-6 * interval.length < end - points[-1] < 1.5 * (points[1] - points[0]):
        return values, points
    return np.concatenate([values, np.take(values, [0], axis)], axis), np.append(points, end)


def _input_points(case: Case, name: str) -> list[np.ndarray]:
    """The points along each axis of an input: those of the solution, or, for a map's coordinates, of its own box."""
    axes = case.inputs[name].space.domain.axes
    return [case.points[n] if n in case.points else np.linspace(a.lower, a.upper, 65) for n, a in axes]


def _place(case: Case, arrangement: Arrangement, at: int) -> dict[str, np.ndarray]:
    """The coordinates of a slice of a mapped domain, each `[up, across]`; none of a box, or of a slice over time."""
    chart, shown = case.problem.chart, (arrangement.across, arrangement.up or "")
    if chart is None or arrangement.up is None or not set(shown) & set(chart.domain.replaced):
        return {}
    names = [n for n in chart.domain.physical_names if n in chart.mapped or n in shown]
    with double_precision():
        where = Grid.of(chart.domain, {n: jnp.asarray(p) for n, p in case.points.items()})
        inputs = {n: jax.tree.map(lambda leaf: jnp.asarray(leaf, float), case.inputs[n]) for n in chart.shapes}
        located = {n: np.asarray(v)[0] for n, v in chart.locate(inputs, where).items() if n in names}
    return {n: arrangement.cut(np.broadcast_to(v, where.shape), at) for n, v in located.items() if n in names}


def _input_values(case: Case, quantity: str) -> dict[str, np.ndarray]:
    shown: dict[str, np.ndarray] = {}
    for name, functions in case.inputs.items():
        names = functions.space.domain.names
        if not names:
            continue
        values = as_callable(functions)(*_input_points(case, name))
        if functions.space.components is None:
            shown[name] = values[0]
        elif len(names) == 1:
            shown[name] = values[:, 0]
        elif quantity in (VORTICITY, SPEED) and values.shape[0] == 2:
            shown[name] = derive(case.problem, case.points, names, list(values[:, 0]), quantity)
        else:
            shown[name] = np.sqrt(np.sum(values[:, 0] ** 2, axis=0))
    return shown
