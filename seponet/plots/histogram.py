"""The distribution of errors over functions."""

from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from ..drawing.style import INK, LINES, TICK, new_figure, percent, save_figure, style_lines
from ..evaluation.errors import Errors


def plot_errors(errors: Errors | np.ndarray, paper_error: float | None, path: str | Path) -> Path:
    """Draw a histogram of relative errors with its mean, and save the picture.

    **Arguments:**

    - `errors`: of each function, as fractions.
    - `paper_error`: the paper's mean, as a fraction, or None.
    - `path`: a .png, .pdf or .svg file.
    """
    values = errors.relative_l2 if isinstance(errors, Errors) else errors
    return save_figure(draw_errors(values, paper_error), path)


def draw_errors(errors: Float[np.ndarray, " functions"], paper_error: float | None = None) -> Figure:
    """The figure of `plot_errors`. Errors differ by factors, so the axis is logarithmic unless one vanishes."""
    if errors.size == 0 or not np.all(np.isfinite(errors)) or np.any(errors < 0):
        raise ValueError("errors must be at least one number, all finite and not negative")
    figure = new_figure(3.0, 5.4)
    axes = figure.subplots()
    values = 100 * np.asarray(errors, np.float64)
    logarithmic = bool(np.min(values) > 0)
    count = int(np.clip(1.5 * np.sqrt(values.size), 5, 30))
    edges = _edges(values, count, logarithmic)
    axes.hist(values, list(edges), color=INK, alpha=0.75, edgecolor="white", linewidth=0.5)
    top = axes.get_ylim()[1]
    mean = float(np.mean(errors))
    marks = [(mean, f"mean {percent(mean)}", "black", "-")]
    if paper_error is not None:
        marks.append((paper_error, f"paper's mean {percent(paper_error)}", LINES[1], "--"))
    for fraction, label, colour, style in marks:
        axes.axvline(100 * fraction, color=colour, linestyle=style, linewidth=1.4, label=label)
    axes.set_ylim(0, 1.05 * top)
    functions = "function" if values.size == 1 else "functions"
    title = f"{values.size} unseen {functions}: {percent(float(np.min(errors)))} to {percent(float(np.max(errors)))}"
    style_lines(axes, title, "relative $L^2$ error (%)", "functions")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    if logarithmic:
        _logarithmic(axes, edges, 100 * (paper_error or mean))
    figure.legend(loc="outside lower center", ncols=2, fontsize=TICK, frameon=False)
    return figure


def _edges(values: np.ndarray, count: int, logarithmic: bool) -> np.ndarray:
    lower, upper = float(np.min(values)), float(np.max(values))
    if logarithmic:
        # At least a factor of 1.2, so that equal errors make one bar of a sensible width.
        spread = max(np.log(upper / lower), np.log(1.2))
        middle = 0.5 * (np.log(upper) + np.log(lower))
        return np.exp(middle + 0.5001 * spread * np.linspace(-1, 1, count + 1))
    return np.linspace(0, upper or 1.0, count + 1)


def _logarithmic(axes: Axes, edges: np.ndarray, other: float) -> None:
    axes.set_xscale("log")
    lower, upper = min(edges[0], other) / 1.15, max(edges[-1], other) * 1.15
    axes.set_xlim(lower, upper)
    decades = np.log10(upper / lower)
    steps = (1.0, 2.0, 3.0, 5.0, 7.0) if decades < 0.8 else (1.0, 2.0, 5.0) if decades < 2.2 else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
