"""Pictures of whatever `predict` returned, and of an operator's answer to one input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..functions import Functions, as_callable
from ..placed import mapped_coordinates, positions
from .style import (
    LINES,
    add_colour_bar,
    draw_map,
    draw_shape,
    few_ticks,
    new_figure,
    scale_of,
    style_axes,
    style_lines,
    symbol,
    symmetric_scale,
)

TIME, MOST = "t", 3
"""The axis that goes up, and how many functions are drawn at most."""


@dataclass(frozen=True)
class Column:
    """Values that one panel of a row shows; a difference has colours of its own."""

    title: str
    values: xr.DataArray
    difference: bool = False


def draw(prediction: xr.DataArray | xr.Dataset, reference: xr.DataArray | xr.Dataset | None = None) -> Figure:
    """Whatever `predict` returned, and beside it a reference and the difference.

    One row for each field and function (at most three functions): a line over one axis, a map over two; of more axes
    the first ones are cut, time at its end and others in the middle. Scattered points are drawn where they are.

    **Arguments:**

    - `prediction`: a DataArray, or a Dataset with a variable for each field.
    - `reference`: with the same names, dimensions and coordinates.
    """
    rows: list[list[Column]] = []
    for name, predicted in _fields(prediction).items():
        exact = None if reference is None else _fields(reference).get(name)
        if reference is not None and exact is None:
            raise ValueError(f"the reference has no field {name!r}; it has {', '.join(_fields(reference))}")
        if exact is not None and (exact.dims, exact.shape) != (predicted.dims, predicted.shape):
            raise ValueError(
                f"the reference of {name} must have the dimensions {dict(predicted.sizes)}; got {dict(exact.sizes)}"
            )
        for number, one in _functions(predicted):
            label = symbol(name) if number is None else f"{symbol(name)}, function {number}"
            row = [Column(label if exact is None else f"prediction {label}", one)]
            if exact is not None:
                same = exact if number is None else exact.isel(function=number)
                row = [Column(f"reference {label}", same), *row, Column("prediction − reference", one - same, True)]
            rows.append(row)
    return _draw_rows(rows, {})


def draw_answer(
    inputs: Mapping[str, Functions], prediction: xr.DataArray | xr.Dataset, error: Any = None, title: str = ""
) -> Figure:
    """The inputs of one function, its solution, and the estimated error where it is known.

    **Arguments:**

    - `inputs`: batches of one function each.
    - `prediction`: without a functions' axis.
    - `error`: prediction minus solution, like `prediction`; None if it is not known.
    - `title`: above all.
    """
    wrong = {} if error is None else _fields(error)
    rows = [
        [
            Column(f"solution {symbol(name)}", values),
            *([Column("estimated error", wrong[name], True)] if name in wrong else []),
        ]
        for name, values in _fields(prediction).items()
    ]
    return _draw_rows(rows, inputs, title)


def _fields(given: xr.DataArray | xr.Dataset) -> dict[str, xr.DataArray]:
    if isinstance(given, xr.DataArray):
        return {str(given.name or "s"): given}
    return {str(name): array for name, array in given.data_vars.items()}


def _functions(values: xr.DataArray) -> list[tuple[int | None, xr.DataArray]]:
    if "function" not in values.dims:
        return [(None, values)]
    return [(i, values.isel(function=i)) for i in range(min(values.sizes["function"], MOST))]


def _draw_rows(rows: Sequence[Sequence[Column]], inputs: Mapping[str, Functions], title: str = "") -> Figure:
    drawn = {name: f for name, f in inputs.items() if len(f.space.domain) in (1, 2) and f.space.components is None}
    wide = max(len(row) for row in rows) + (1 if drawn else 0)
    high = max(len(rows), len(drawn))
    figure = new_figure(2.6 * high + (0.3 if title else 0), 3.1 * wide)
    if title:
        figure.suptitle(title, fontsize=10)
    grid = figure.subplots(high, wide, squeeze=False)
    for axes in grid.ravel():
        axes.set_visible(False)
    for axes, (name, functions) in zip(grid[:, 0], drawn.items(), strict=False):
        axes.set_visible(True)
        _draw_panel(figure, axes, Column(f"input {symbol(name)}", _sampled(name, functions)), None)
    for panels, row in zip(grid, rows, strict=False):
        common = [column.values.to_numpy() for column in row if not column.difference]
        for axes, column in zip(panels[wide - len(row) :], row, strict=True):
            axes.set_visible(True)
            _draw_panel(figure, axes, column, None if column.difference else common)
    return figure


def _sampled(name: str, functions: Functions) -> xr.DataArray:
    axes = functions.space.domain.axes
    points = [np.linspace(axis.lower, axis.upper, 101 if len(axes) == 1 else 65) for _, axis in axes]
    values = as_callable(functions)(*points)[0]
    return xr.DataArray(values, {n: p for (n, _), p in zip(axes, points, strict=True)}, [n for n, _ in axes], name=name)


def _cut(values: xr.DataArray) -> tuple[xr.DataArray, str]:
    """At most two axes of a field, and where the others are held."""
    notes: list[str] = []
    for axis in sorted(map(str, values.dims), key=lambda name: name != TIME):
        if len(values.dims) <= 2:
            break
        values = values.isel({axis: values.sizes[axis] - 1 if axis == TIME else values.sizes[axis] // 2})
        notes.append(f"{symbol(axis)} = {float(values[axis]):.3g}")
    return values, ", ".join(notes)


def _draw_panel(figure: Figure, axes: Axes, column: Column, common: Sequence[np.ndarray] | None) -> None:
    values, note = _cut(column.values)
    title = f"{column.title}, {note}" if note else column.title
    array = values.to_numpy()
    if "point" in values.dims:  # points outside of a mapped domain have no value
        values = values.isel(point=np.isfinite(array))
        array = values.to_numpy()
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{column.title} has values that are not finite, so it can't be drawn; check the model")
    if "point" in values.dims:
        mapped = mapped_coordinates(values)
        places = [str(name) for name in mapped or values.coords if values[name].dims == ("point",)]
        across, up = (*places, None)[:2]
        if up is None:
            axes.plot(values[across], array, ".", color=LINES[0])
            style_lines(axes, title, symbol(across or "point"))
        else:
            image = axes.scatter(values[across], values[up], c=array, cmap=scale_of(array).colours, s=14)
            style_axes(axes, title, symbol(str(across)), symbol(up))
            add_colour_bar(figure, image, axes)
        return
    names = [str(name) for name in values.dims]
    placed = positions(values, tuple(names)) if len(names) == 2 and mapped_coordinates(values) else {}
    if len(placed) == 2 and TIME not in placed:
        scale = symmetric_scale(array) if column.difference else scale_of(*(common or [array]))
        across, up = placed
        image = draw_shape(axes, placed[across], placed[up], array, scale)
        style_axes(axes, title, symbol(across), symbol(up))
        add_colour_bar(figure, image, axes)
    elif len(names) == 2:
        across, up = (names[1], names[0]) if names[0] == TIME else (names[0], names[1])
        scale = symmetric_scale(array) if column.difference else scale_of(*(common or [array]))
        shown = values.transpose(up, across).to_numpy()
        image = draw_map(
            axes, values[across].to_numpy(), values[up].to_numpy(), shown, scale, square=TIME not in (across, up)
        )
        style_axes(axes, title, symbol(across), symbol(up))
        add_colour_bar(figure, image, axes)
    elif names:
        axes.plot(values[names[0]], array, color=LINES[1 if column.difference else 0], linewidth=1.5)
        style_lines(axes, title, symbol(names[0]))
        few_ticks(axes)
    else:
        axes.text(0.5, 0.5, f"{float(array):.4g}", ha="center", va="center")
        axes.set_axis_off()
        axes.set_title(title, fontsize=9)
