"""Pictures of solutions beside references, of training, errors and bases: `draw_*` make figures, `plot_*` files."""

from ..problems.separated import analytic_basis
from .animation import animate
from .basis import draw_basis, plot_basis
from .case import Case, make_case
from .comparison import draw_comparison
from .histogram import draw_errors, plot_errors
from .history import draw_history, plot_history
from .run import plot_all, predict_case
from .sample import draw_sample, plot_sample

__all__ = [
    "Case",
    "analytic_basis",
    "animate",
    "draw_basis",
    "draw_comparison",
    "draw_errors",
    "draw_history",
    "draw_sample",
    "make_case",
    "plot_all",
    "plot_basis",
    "plot_errors",
    "plot_history",
    "plot_sample",
    "predict_case",
]
