"""How a training run went: loss, its terms and the validation error."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from ..drawing.style import LINES, TICK, new_figure, percent, save_figure, style_lines

Entry = Mapping[str, Any]


def plot_history(history: Sequence[Entry], path: str | Path, *, paper_error: float | None = None) -> Path:
    """Draw the entries of `metrics.jsonl` (`TrainingResult.history`) and save the picture.

    **Arguments:**

    - `history`: entries with "step", "seconds", "loss", "terms" and now and then "validation".
    - `path`: a .png, .pdf or .svg file.
    - `paper_error`: the paper's mean relative error, as a fraction, drawn as a line.
    """
    return save_figure(draw_history(history, paper_error), path)


def draw_history(history: Sequence[Entry], paper_error: float | None = None) -> Figure:
    """The figure of `plot_history`: losses over steps, and the error over seconds if there was a validation."""
    if not history:
        raise ValueError("there is no history to draw: the run has logged nothing yet")
    measured = _changes(history)
    figure = new_figure(3.0, 9.0 if measured else 5.0)
    panels = figure.subplots(1, 2 if measured else 1, squeeze=False)[0]
    _draw_losses(panels[0], history)
    if measured:
        _draw_validation(panels[1], measured, paper_error)
    return figure


def _draw_losses(axes: Axes, history: Sequence[Entry]) -> None:
    names = list(dict.fromkeys(name for entry in history for name in entry.get("terms") or {}))
    few = {"marker": "o", "markersize": 3} if len(history) < 10 else {}
    _draw(axes, [(e["step"], e["loss"]) for e in history], "loss", color="black", linewidth=1.4, zorder=3, **few)
    if len(names) > 1:
        for i, name in enumerate(names):
            line = [(e["step"], e["terms"][name]) for e in history if name in (e.get("terms") or {})]
            style = ("-", "--", ":", "-.")[i // len(LINES) % 4]
            _draw(axes, line, name, color=LINES[i % len(LINES)], linewidth=1.0, linestyle=style)
    style_lines(axes, "training, with the terms of the loss" if len(names) > 1 else "training", "step", "loss")
    axes.set_yscale("log")
    if len(names) > 1:
        axes.legend(fontsize=TICK, frameon=False, ncols=2 if len(names) > 5 else 1)


class _Plain(LogFormatter):
    """The labels that fit on a logarithmic axis, but 0.1 rather than 1e-01."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if LogFormatter.__call__(self, x, pos) else ""


def _draw_validation(axes: Axes, measured: list[tuple[float, float]], paper_error: float | None) -> None:
    seconds = measured[-1][0]
    unit, name = (3600, "hours") if seconds > 2 * 3600 else (60, "minutes") if seconds > 300 else (1, "seconds")
    _draw(axes, [(s / unit, 100 * e) for s, e in measured], "here", color=LINES[0], marker="o", markersize=3)
    last = measured[-1][1]
    style_lines(axes, f"validation, {percent(last)} at the end", f"{name} of training", "mean relative $L^2$ error (%)")
    axes.set_yscale("log")
    axes.set_xlim(left=0)
    axes.yaxis.set_major_formatter(_Plain())
    axes.yaxis.set_minor_formatter(_Plain(minor_thresholds=(1.2, 0.5)))
    if paper_error is not None:
        label = f"the paper's at its end, {percent(paper_error)}"
        axes.axhline(100 * paper_error, color=LINES[1], linewidth=1.2, linestyle="--", label=label)
        axes.margins(y=0.12)
        axes.legend(fontsize=TICK, frameon=False)


def _draw(axes: Axes, points: list[tuple[float, float]], label: str, **style: Any) -> None:
    shown = [(x, y) for x, y in points if math.isfinite(y) and y > 0]
    axes.plot([x for x, _ in shown], [y for _, y in shown], label=label, **style)


def _changes(history: Sequence[Entry]) -> list[tuple[float, float]]:
    """Where the validation was measured anew: entries in between repeat the last value."""
    changes: list[tuple[float, float]] = []
    for entry in history:
        error = entry.get("validation")
        if error is not None and (not changes or error != changes[-1][1]):
            changes.append((entry["seconds"], error))
    return changes
