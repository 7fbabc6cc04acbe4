"""Input, reference, prediction and error side by side."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure, SubFigure

from ..drawing.style import TITLE, add_colour_bar, new_figure, scale_of, symbol, symmetric_scale
from .case import Case
from .panels import (
    Arrangement,
    arrange,
    count_inputs,
    describe_numbers,
    draw_error_over,
    draw_inputs,
    draw_lines,
    draw_slice,
)

SNAPSHOTS = (0.25, 0.5, 1.0)
"""Where solutions of three variables are cut, as fractions of the time axis."""


def draw_comparison(cases: Sequence[Case], quantity: str | None = None) -> Figure:
    """Functions of a test set with their predictions: one row for each case, or snapshots of a single one.

    **Arguments:**

    - `cases`: functions of one problem, each with a prediction; one only, where there are more than two variables.
    - `quantity`: a field, or "vorticity" or "speed" of a flow; see `quantities_of` for the default.
    """
    if not cases:
        raise ValueError("a comparison needs at least one function; got none")
    arrangement = arrange(cases[0].problem, cases[0].points)
    quantity = quantity or cases[0].quantities()[0]
    for case in cases:
        if case.predicted is None:
            raise ValueError(f"function {case.number} has no prediction to compare with; use draw_sample for it")
    if arrangement.along is not None:
        if len(cases) > 1:
            raise ValueError(
                f"snapshots of one function fill a picture; got {len(cases)} functions, so draw one picture for each"
            )
        return _draw_snapshots(cases[0], arrangement, quantity)
    figure = new_figure(2.45 * len(cases))
    rows = figure.subfigures(len(cases), 1, squeeze=False, hspace=0.04)[:, 0]
    for row, case in zip(rows, cases, strict=True):
        _draw_row(row, case, arrangement, quantity)
    return figure


def _draw_row(figure: SubFigure, case: Case, arrangement: Arrangement, quantity: str) -> None:
    exact, predicted = (arrangement.cut(values) for values in case.show(quantity) if values is not None)
    _write_title(figure, case, arrangement)
    first = count_inputs(case)
    if arrangement.up is None:
        panels = list(figure.subplots(1, first + 2, squeeze=False)[0])
        draw_inputs(figure, panels[:first], case, quantity)
        points = case.points[arrangement.across]
        both = {"reference": exact, "prediction": predicted}
        draw_lines(panels[-2], points, both, symbol(quantity), arrangement.across)
        draw_lines(panels[-1], points, {"": predicted - exact}, "prediction − reference", arrangement.across)
        return
    panels = list(figure.subplots(1, first + 3, squeeze=False)[0])
    draw_inputs(figure, panels[:first], case, quantity)
    scale, wrong = scale_of(exact, predicted), symmetric_scale(predicted - exact)
    name = symbol(quantity)
    draw_slice(panels[-3], case, arrangement, exact, scale, f"reference {name}")
    image = draw_slice(panels[-2], case, arrangement, predicted, scale, f"prediction {name}")
    add_colour_bar(figure, image, panels[-2])
    image = draw_slice(panels[-1], case, arrangement, predicted - exact, wrong, "prediction − reference")
    add_colour_bar(figure, image, panels[-1])
    for axes in panels[-2:]:
        axes.set_ylabel("")
        axes.tick_params(labelleft=False)


def _draw_snapshots(case: Case, arrangement: Arrangement, quantity: str) -> Figure:
    along = arrangement.along or ""
    exact, predicted = (values for values in case.show(quantity) if values is not None)
    times = snapshots(case.points[along])
    figure = new_figure(5.9)
    _write_title(figure, case, arrangement)
    first = count_inputs(case)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1, 2.6), wspace=0.03)[0]
    panels = list(left.subplots(first + 1, 1, squeeze=False)[:, 0])
    draw_inputs(left, panels[:first], case, quantity)
    draw_error_over(panels[-1], case, along)
    panels[-1].set_box_aspect(1.0)
    grid = right.subplots(3, len(times), squeeze=False, sharex=True, sharey=True)
    scale, wrong = scale_of(exact, predicted), symmetric_scale(predicted - exact)
    rows = (
        ("reference", exact, scale),
        ("prediction", predicted, scale),
        ("prediction − reference", predicted - exact, wrong),
    )
    images = []
    for row, (label, values, colours) in zip(grid, rows, strict=True):
        for axes, i in zip(row, times, strict=True):
            title = f"{symbol(along)} = {case.points[along][i]:.3g}" if label == "reference" else ""
            images.append(draw_slice(axes, case, arrangement, arrangement.cut(values, i), colours, title, i))
            axes.label_outer()
        row[0].set_ylabel(f"{label}\n{symbol(arrangement.up or '')}", fontsize=9)
    name = symbol(quantity)
    add_colour_bar(right, images[0], list(grid[:2].ravel()), name)
    add_colour_bar(right, images[-1], list(grid[2:].ravel()), f"error of {name}")
    return figure


def snapshots(points: np.ndarray) -> list[int]:
    """The indices at which a time axis is cut."""
    return sorted({round(fraction * (points.shape[0] - 1)) for fraction in SNAPSHOTS})


def _write_title(figure: Figure | SubFigure, case: Case, arrangement: Arrangement) -> None:
    notes = [note for note in (describe_numbers(case), arrangement.note(case.points)) if note]
    figure.suptitle("; ".join([case.title(), *notes]), fontsize=TITLE)
