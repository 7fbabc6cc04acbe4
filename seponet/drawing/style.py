"""How all pictures look: sizes, colours that colour-blind readers can tell apart, scales, labels and saving.

Figures are made without pyplot and every size is set on the figure itself, so neither rcParams nor any other global
state is touched.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import NonUniformImage
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from .._files import replacing

WIDTH = 9.0
DPI = 160
TEXT, TITLE, TICK = 9.0, 10.0, 8.0

SEQUENTIAL, DIVERGING, DIFFERENCE = "viridis", "RdBu_r", "PuOr_r"
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
INK = LINES[0]

GREEK = re.compile(
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|phi|chi|psi|omega"
)


@dataclass(frozen=True)
class Scale:
    """The range of values that a colour map spans."""

    lower: float
    upper: float
    colours: str


def scale_of(*arrays: np.ndarray) -> Scale:
    """One scale for several arrays: diverging and symmetric about zero where they have both signs, else sequential."""
    lower = min(float(np.min(array)) for array in arrays)
    upper = max(float(np.max(array)) for array in arrays)
    if min(-lower, upper) > 0.1 * max(-lower, upper):
        return symmetric_scale(*arrays, colours=DIVERGING)
    if not upper > lower:
        margin = 0.5 * abs(upper) or 1.0
        lower, upper = lower - margin, upper + margin
    return Scale(lower, upper, SEQUENTIAL)


def symmetric_scale(*arrays: np.ndarray, colours: str = DIFFERENCE) -> Scale:
    """From minus to plus the largest magnitude; one where everything vanishes."""
    limit = max(float(np.max(np.abs(array))) for array in arrays) or 1.0
    return Scale(-limit, limit, colours)


def new_figure(height: float, width: float = WIDTH) -> Figure:
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained", facecolor="white")
    # Room for the last tick label of a panel beside the first one of the next.
    figure.set_layout_engine("constrained", w_pad=0.09)
    return figure


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure; the suffix says as what (png, pdf, svg). The folder is made if needed."""
    path = Path(path)
    known = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise ValueError(f"a picture's name must end in .png, .pdf or .svg; got {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as fresh:
        figure.savefig(fresh, dpi=DPI)
    return path


def symbol(name: str) -> str:
    """A name as mathematics: `t` is slanted, `omega` a Greek letter, longer words upright."""
    if GREEK.fullmatch(name):
        return rf"$\{name}$"
    if len(name) == 1:
        return f"${name}$"
    return name.replace("$", r"\$")


def percent(fraction: float) -> str:
    """A fraction in percent, with three digits."""
    return f"{100 * fraction:.3g}%"


def style_axes(axes: Axes, title: str = "", across: str = "", up: str = "") -> None:
    """Titles, labels and ticks in the common sizes."""
    axes.set_title(title, fontsize=TEXT)
    axes.set_xlabel(across, fontsize=TEXT)
    axes.set_ylabel(up, fontsize=TEXT)
    axes.tick_params(which="both", labelsize=TICK, width=0.6)
    axes.tick_params(length=2.5)
    for line in axes.spines.values():
        line.set_linewidth(0.6)


def style_lines(axes: Axes, title: str = "", across: str = "", up: str = "") -> None:
    """As `style_axes`, for lines: a light grid, no box."""
    style_axes(axes, title, across, up)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="0.9", linewidth=0.5)
    axes.set_axisbelow(True)


def few_ticks(axes: Axes, across: bool = True, up: bool = True) -> None:
    """Ticks that do not collide in small panels, nor with those of the panel beside."""
    if across:
        axes.xaxis.set_major_locator(_round_numbers(3))
    if up:
        axes.yaxis.set_major_locator(_round_numbers(3 if axes.images else 5))
        axes.yaxis.set_major_formatter(_short_numbers())
        axes.yaxis.get_offset_text().set_fontsize(TICK)


def draw_map(
    axes: Axes, across: np.ndarray, up: np.ndarray, values: np.ndarray, scale: Scale, square: bool = False
) -> NonUniformImage:
    """Values `[up, across]` on points that need not be equally spaced, interpolated between them."""
    extent = (float(across[0]), float(across[-1]), float(up[0]), float(up[-1]))
    image = NonUniformImage(axes, interpolation="bilinear", cmap=scale.colours, extent=extent)
    image.set_clim(scale.lower, scale.upper)
    image.set_data(across, up, values)
    axes.add_image(image)
    axes.set_xlim(extent[:2])
    axes.set_ylim(extent[2:])
    if square:
        axes.set_aspect("equal")
    few_ticks(axes)
    return image


def draw_shape(axes: Axes, x: np.ndarray, y: np.ndarray, values: np.ndarray, scale: Scale) -> QuadMesh:
    """Values at points `x`, `y` of a mapped grid, all `[n, m]`, interpolated between them, in the true shape."""
    image = axes.pcolormesh(x, y, values, cmap=scale.colours, shading="gouraud", rasterized=True)
    image.set_clim(scale.lower, scale.upper)
    size = max(float(np.ptp(x)), float(np.ptp(y)), 1e-300)
    edges = [(x[i], y[i]) for i in (0, -1)] + [(x[:, i], y[:, i]) for i in (0, -1)]
    for across, up in edges:
        length = float(np.sum(np.hypot(np.diff(across), np.diff(up))))
        others = [(a, b) for a, b in edges if a is not across]
        # A pole is no wall, and neither is where a periodic axis closes.
        seam = any(np.max(np.hypot(a - across, b - up)) < 1e-5 * size for a, b in others if a.shape == across.shape)
        if length > 1e-5 * size and not seam:
            axes.plot(across, up, color=INK, linewidth=0.7)
    axes.set_aspect("equal")
    axes.use_sticky_edges = False
    axes.margins(0.04)
    few_ticks(axes)
    return image


def add_colour_bar(figure: Figure | SubFigure, image: Any, axes: Axes | Sequence[Axes], label: str = "") -> Colorbar:
    """A colour bar to the right of a panel that is the last of its row, or of several rows that share it."""
    if isinstance(axes, Axes):
        # Inside the panel's own coordinates, so that it is as high as the panel whatever its aspect.
        bar = figure.colorbar(image, cax=axes.inset_axes((1.05, 0.0, 0.06, 1.0)))
    else:
        bar = figure.colorbar(image, ax=list(axes), pad=0.02, fraction=0.05, aspect=30)
    bar.ax.yaxis.set_major_locator(_round_numbers(5))
    bar.ax.yaxis.set_major_formatter(_short_numbers())
    bar.ax.tick_params(labelsize=TICK, width=0.6, length=2.5)
    bar.ax.yaxis.get_offset_text().set_fontsize(TICK)
    bar.ax.yaxis.set_offset_position("left")
    bar.set_label(label, fontsize=TEXT)
    bar.outline.set_linewidth(0.6)  # pyright: ignore[reportCallIssue]
    return bar


def _round_numbers(most: int) -> MaxNLocator:
    return MaxNLocator(most, steps=[1, 2, 5, 10])


def _short_numbers() -> ScalarFormatter:
    formatter = ScalarFormatter(useMathText=True, useOffset=False)
    formatter.set_powerlimits((-2, 3))
    return formatter
