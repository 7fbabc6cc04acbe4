"""Pictures of solutions beside references, of training, errors and bases: `draw_*` make figures, `plot_*` files."""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .animation import animate
    from .basis import draw_basis, plot_basis
    from .case import Case, make_case
    from .comparison import draw_comparison
    from .histogram import draw_errors, plot_errors
    from .history import draw_history, plot_history
    from .prediction import draw
    from .run import plot_all, predict_case
    from .sample import draw_sample, plot_sample

__all__ = [
    "Case",
    "animate",
    "draw",
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

__getattr__, __dir__ = attach(
    __name__,
    {
        "animation": ["animate"],
        "basis": ["draw_basis", "plot_basis"],
        "case": ["Case", "make_case"],
        "comparison": ["draw_comparison"],
        "histogram": ["draw_errors", "plot_errors"],
        "history": ["draw_history", "plot_history"],
        "prediction": ["draw"],
        "run": ["plot_all", "predict_case"],
        "sample": ["draw_sample", "plot_sample"],
    },
)
