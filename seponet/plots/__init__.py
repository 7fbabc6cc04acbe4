"""Pictures of solutions beside references, of training, errors and bases: `draw_*` make figures, `plot_*` files."""

from .animation import animate as animate
from .basis import analytic_basis as analytic_basis
from .basis import draw_basis as draw_basis
from .basis import plot_basis as plot_basis
from .case import Case as Case
from .case import make_case as make_case
from .comparison import draw_comparison as draw_comparison
from .comparison import plot_comparison as plot_comparison
from .histogram import draw_errors as draw_errors
from .histogram import plot_errors as plot_errors
from .history import draw_history as draw_history
from .history import plot_history as plot_history
from .run import plot_all as plot_all
from .run import plot_run as plot_run
from .run import predict_case as predict_case
from .sample import draw_sample as draw_sample
from .sample import plot_sample as plot_sample
