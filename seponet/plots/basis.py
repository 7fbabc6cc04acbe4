"""The basis functions that a model has learned, next to those that separation of variables gives."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter
from scipy.optimize import linear_sum_assignment

from ..drawing.style import (
    DIVERGING,
    LINES,
    TICK,
    TITLE,
    Scale,
    add_colour_bar,
    draw_map,
    few_ticks,
    new_figure,
    save_figure,
    style_axes,
    style_lines,
    symbol,
)
from ..nn.model import OperatorNetwork
from ..operator.operator import Operator
from ..problems.separated import Analytic

MOST_LINES = 10
JOINT_POINTS = 41


def plot_basis(
    basis: OperatorNetwork | Operator | Mapping[str, xr.DataArray],
    path: str | Path,
    analytic: Analytic | None = None,
    *,
    field: str | None = None,
) -> Path:
    """Draw the basis functions of each axis and save the picture.

    **Arguments:**

    - `basis`: a model, an operator, or what `Operator.basis` returns.
    - `path`: a .png, .pdf or .svg file.
    - `analytic`: known functions for some axes; see `problems.separated.analytic_basis`.
    - `field`: whose, a field or the number of a potential; by default the first.
    """
    return save_figure(draw_basis(basis, analytic, field), path)


def draw_basis(
    basis: OperatorNetwork | Operator | Mapping[str, xr.DataArray],
    analytic: Analytic | None = None,
    field: str | None = None,
) -> Figure:
    """The figure of `plot_basis`.

    One column for each axis. The scale and sign of a learned factor are arbitrary, so each one is divided by its
    largest value; the order of a CP decoder's factors is arbitrary too, so it follows the analytic functions if they
    are given. Apart from that the factors are shown as learned. The last row tells how much of each analytic function
    lies outside their span, which is all that matters for a decoder that mixes them.
    """
    tables = {name: _of_field(table, field) for name, table in tables_of(basis).items()}
    joint = [name for name, table in tables.items() if table.ndim != 2]
    if joint:
        return _draw_joint(tables[joint[0]])
    known = {name: f for name, f in (analytic or {}).items() if name in tables}
    if known and _is_paired(basis):
        tables = match(tables, known)
    rows = 3 if known else 1
    figure = new_figure(0.5 + 2.3 * rows, max(5.0, min(9.0, 4.0 * len(tables))))
    panels = figure.subplots(rows, len(tables), squeeze=False)
    ranks = sorted({table.shape[0] for table in tables.values()})
    figure.suptitle(
        f"Basis functions, rank {' and '.join(map(str, ranks))}, each divided by its maximum", fontsize=TITLE
    )
    for column, (name, table) in zip(panels.T, tables.items(), strict=True):
        points, rank = np.asarray(table[name]), table.shape[0]
        _draw_factors(figure, column[0], points, np.asarray(table), f"model, {symbol(name)}", name)
        if name in known:
            exact = known[name](points, rank)
            _draw_factors(figure, column[1], points, exact, f"analytic, {symbol(name)}", name)
            _draw_distances(column[2], distances(np.asarray(table), exact), name)
        else:
            for axes in column[1:]:
                axes.set_axis_off()
    for axes in panels[:2, -1]:
        _add_legend(axes)
    return figure


def match(tables: Mapping[str, xr.DataArray], analytic: Analytic) -> dict[str, xr.DataArray]:
    """Factors (k, axis) in the order of the analytic functions that they resemble.

    The k-th factors of all axes belong together, so all get the same order: the one with the largest sum over k of the
    products over axes of the cosines between a factor and its analytic function.
    """
    likeness: Any = 1.0
    for name, functions in analytic.items():
        factors = np.asarray(tables[name], np.float64)
        likeness = likeness * np.abs(_unit(functions(np.asarray(tables[name][name]), len(factors))) @ _unit(factors).T)
    order = linear_sum_assignment(likeness, maximize=True)[1]
    return {name: table.isel(k=order) for name, table in tables.items()}


def distances(
    factors: Float[np.ndarray, "rank n"], functions: Float[np.ndarray, "count n"]
) -> Float[np.ndarray, " count"]:
    """For each function the part of its norm that lies outside the span of the factors."""
    left, values, _ = np.linalg.svd(np.asarray(factors, np.float64).T, full_matrices=False)
    span = left[:, values > 1e-7 * values[0]]
    outside = functions - (functions @ span) @ span.T
    return np.linalg.norm(outside, axis=1) / np.linalg.norm(functions, axis=1)


def tables_of(
    basis: OperatorNetwork | Operator | Mapping[str, xr.DataArray],
) -> Mapping[str, xr.DataArray]:
    """The basis functions of a model, for each axis or jointly, as `Operator.basis` gives them."""
    if not isinstance(basis, Mapping):
        operator = _operator_of(basis)
        # A joint basis lives on the whole grid, so it gets a coarser one.
        return operator.basis(201 if operator.model.separable else JOINT_POINTS)
    if not basis:
        raise ValueError("there are no basis functions to draw; got an empty mapping")
    return basis


def _operator_of(basis: OperatorNetwork | Operator) -> Operator:
    return basis if isinstance(basis, Operator) else Operator(basis)


def _is_paired(basis: OperatorNetwork | Operator | Mapping[str, xr.DataArray]) -> bool:
    """Whether the k-th factors of all axes share one coefficient (CP), so that one order serves all axes."""
    if isinstance(basis, Mapping):
        return False
    _, *shape = _operator_of(basis).model.coefficient_shape()
    return len(shape) == 1


def _unit(values: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.where(lengths > 0, lengths, 1.0)


def _of_field(table: xr.DataArray, field: str | None) -> xr.DataArray:
    owner = str(table.dims[0])  # a field, or a potential from which fields are made
    names = [str(name) for name in np.asarray(table[owner])]
    if field is not None and field not in names:
        raise ValueError(f"there is no {owner} {field!r}; the basis has {', '.join(names)}")
    return table.isel({owner: 0 if field is None else names.index(field)})


def _normalise(values: np.ndarray) -> np.ndarray:
    """Each row with the maximum one, and positive where it first comes near it."""
    values = np.asarray(values, np.float64)
    peaks = np.max(np.abs(values), axis=1, keepdims=True)
    first = np.argmax(np.abs(values) >= 0.5 * peaks, axis=1)[:, None]
    return values * np.sign(np.take_along_axis(values, first, axis=1)) / np.where(peaks == 0, 1.0, peaks)


def _draw_factors(figure: Figure, axes: Axes, points: np.ndarray, values: np.ndarray, title: str, name: str) -> None:
    """Lines while they can be told apart, a map with one row for each factor beyond."""
    values, rank = _normalise(values), values.shape[0]
    if rank > MOST_LINES:
        image = draw_map(axes, points, np.arange(1.0, rank + 1), values, Scale(-1.0, 1.0, DIVERGING))
        image.set_interpolation("nearest")
        axes.set_ylim(0.5, rank + 0.5)
        axes.yaxis.set_major_locator(_whole_numbers())
        style_axes(axes, title, symbol(name), "$k$")
        add_colour_bar(figure, image, axes)
        return
    for k, line in enumerate(values):
        axes.plot(points, line, color=_colour(k, rank), linewidth=1.3, label=str(k + 1))
    axes.set_xlim(float(points[0]), float(points[-1]))
    axes.set_ylim(min(-0.05, 1.1 * float(np.min(values))), 1.1)
    style_lines(axes, title, symbol(name))
    few_ticks(axes)


def _add_legend(axes: Axes) -> None:
    if len(axes.get_legend_handles_labels()[0]) > 1:
        beside: Any = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
        axes.legend(title="$k$", fontsize=7, title_fontsize=TICK, frameon=False, **beside)


def _colour(k: int, rank: int) -> str:
    if rank <= len(LINES):
        return LINES[k]
    return to_hex(colormaps["viridis"](0.92 * k / (rank - 1)))


def _draw_distances(axes: Axes, values: np.ndarray, name: str) -> None:
    numbers = np.arange(1, values.shape[0] + 1)
    shown = 100 * np.maximum(values, 1e-10)
    axes.plot(numbers, shown, "o", color=LINES[0], markersize=4)
    axes.set_yscale("log")
    # Whole decades: within one, the ticks would have no round labels.
    axes.set_ylim(10 ** np.floor(np.log10(shown.min()) - 0.1), 10 ** np.ceil(np.log10(shown.max()) + 0.1))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(0.5, values.shape[0] + 0.5)
    axes.xaxis.set_major_locator(_whole_numbers())
    style_lines(axes, f"analytic, outside the model's span, {symbol(name)}", "$k$", "part of the norm (%)")


def _whole_numbers() -> MaxNLocator:
    return MaxNLocator(5, integer=True, min_n_ticks=1)


def _draw_joint(table: xr.DataArray) -> Figure:
    """Basis functions of all variables together: maps of the first ten, further axes held in the middle."""
    names = [str(name) for name in table.dims[1:]]
    across, up = (names[1], names[0]) if len(names) > 1 and names[0] == "t" else (names[0], names[-1])
    held = {name: table.sizes[name] // 2 for name in names if name not in (across, up)}
    maps = _normalise(np.asarray(table.isel(held).transpose("k", up, across)).reshape(table.shape[0], -1))
    shape = (table.shape[0], table.sizes[up], table.sizes[across])
    shown = min(MOST_LINES, shape[0])
    rows = -(-shown // 5)
    figure = new_figure(0.5 + 1.9 * rows)
    figure.suptitle(f"The first {shown} of {shape[0]} basis functions, each divided by its maximum", fontsize=TITLE)
    panels = figure.subplots(rows, min(5, shown), squeeze=False, sharex=True, sharey=True)
    image = None
    for k, axes in enumerate(panels.ravel()):
        if k >= shown:
            axes.set_axis_off()
            continue
        values = maps.reshape(shape)[k]
        image = draw_map(axes, np.asarray(table[across]), np.asarray(table[up]), values, Scale(-1.0, 1.0, DIVERGING))
        style_axes(axes, f"$k = {k + 1}$", symbol(across), symbol(up))
        axes.label_outer()
    add_colour_bar(figure, image, list(panels.ravel()))
    return figure
