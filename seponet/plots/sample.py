"""One test function with its reference solution."""

from pathlib import Path

from matplotlib.figure import Figure

from ..drawing.style import TITLE, add_colour_bar, new_figure, percent, save_figure, scale_of, symbol
from ..evaluation.testset import TestSet
from .case import Case, make_case
from .comparison import snapshots
from .panels import arrange, count_inputs, describe_numbers, draw_inputs, draw_lines, draw_slice


def plot_sample(testset: TestSet, path: str | Path, which: int = 0, *, quantity: str | None = None) -> Path:
    """Draw one function of a test set and save the picture.

    **Arguments:**

    - `testset`: of any problem.
    - `path`: a .png, .pdf or .svg file.
    - `which`: the index of the function.
    - `quantity`: a field, or "vorticity" or "speed" of a flow.
    """
    solutions = {field: testset.solution(field) for field in testset.problem.fields}
    case = make_case(testset.problem, testset.inputs, testset.points, solutions, None, None, which)
    return save_figure(draw_sample(case, quantity, testset.own_error), path)


def draw_sample(case: Case, quantity: str | None = None, own_error: float | None = None) -> Figure:
    """The figure of `plot_sample`; `own_error` is that of the reference."""
    arrangement = arrange(case.problem, case.points)
    quantity = quantity or case.quantities()[0]
    values, _ = case.show(quantity)
    along, first = arrangement.along, count_inputs(case)
    times = [0] if along is None else snapshots(case.points[along])
    panels_wide = first + len(times)
    figure = new_figure(2.65 if along else 2.8, 9.0 if along else 3.1 * panels_wide)
    title = [case.title(), describe_numbers(case)]
    title.append(arrangement.note(case.points))
    if own_error is not None:
        title.append(f"reference's own error {percent(own_error)}")
    figure.suptitle("; ".join(part for part in title if part), fontsize=TITLE)
    panels = list(figure.subplots(1, panels_wide, squeeze=False)[0])
    draw_inputs(figure, panels[:first], case, quantity)
    shown = panels[first:]
    if arrangement.up is None:
        points = case.points[arrangement.across]
        draw_lines(shown[0], points, {"": arrangement.cut(values)}, symbol(quantity), arrangement.across)
        return figure
    scale = scale_of(values)
    images = []
    for axes, i in zip(shown, times, strict=True):
        name = f"solution {symbol(quantity)}"
        if along is not None:
            name = f"{symbol(quantity)}, {symbol(along)} = {case.points[along][i]:.3g}"
        images.append(draw_slice(axes, case, arrangement, arrangement.cut(values, i), scale, name, i))
    for axes in shown[1:]:
        axes.set_ylabel("")
        axes.tick_params(labelleft=False)
    add_colour_bar(figure, images[-1], shown[-1])
    return figure
