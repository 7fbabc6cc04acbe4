"""The figure of the trust benchmark: estimates against true errors."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

COLOURS = {"in": "#1f77b4", "x2": "#ff7f0e", "x3": "#d62728", "rough": "#2ca02c"}
FARTHEST = 1e3
"""Beyond this error, in units of the solution, it does not matter how wrong an answer is: dots lie on the edge."""
NAMES = {"in": "as trained", "x2": "twice as large", "x3": "three times", "rough": "half the length scale"}


def draw(measured: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """A panel for each problem: the estimate of every function against its true error, on logarithmic axes."""
    columns = min(4, len(measured))
    rows = math.ceil(len(measured) / columns)
    figure, panels = plt.subplots(rows, columns, figsize=(3.1 * columns, 3.0 * rows), squeeze=False)
    for panel in panels.flat[len(measured) :]:
        panel.set_visible(False)
    for panel, (name, result) in zip(panels.flat, measured.items(), strict=False):
        every = [
            value
            for kind in NAMES
            if kind in result
            for key in ("truth", "estimate")
            for value in result[kind][key]
            if value and np.isfinite(value)
        ]
        low, high = 0.6 * min(every), 1.7 * min(max(every), FARTHEST / 2)
        # Whole decades, or labels between them would lie on each other.
        low, high = 10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high))
        panel.plot([low, high], [low, high], color="black", linewidth=0.8)
        panel.fill_between(
            [low, high], [low / 2, high / 2], [2 * low, 2 * high], color="black", alpha=0.07, linewidth=0
        )
        for kind, label in NAMES.items():
            if kind in result:
                shown = (np.minimum(np.asarray(result[kind][key], float), high) for key in ("truth", "estimate"))
                panel.plot(*shown, ".", markersize=4, color=COLOURS[kind], label=label)
        panel.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), title=name)
        panel.set_aspect("equal")
        panel.title.set_fontsize(10)
        panel.tick_params(labelsize=7)
    panels[0][0].legend(fontsize=7, loc="upper left", handletextpad=0.1)
    figure.supxlabel("true relative L2 error", fontsize=10)
    figure.supylabel("estimate", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
