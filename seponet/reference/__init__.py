"""Reference solutions, one file per method; each states and tests its order.

Solvers are batched: they take callables for the input functions, arrays for the output times and points, and return
float64 NumPy arrays `[functions, t, x(, y)]`, whatever the user's JAX precision. `resolution` refines space, and time
where the steps are fixed (`solve_nonlinear_diffusion` chooses its own, by `tolerance`), so that
`estimate_error(lambda n: solve(..., resolution=n), n)` is the error of the reference itself.
"""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .characteristics import solve_advection
    from .finite_difference import solve_diffusion_reaction
    from .method_of_lines import solve_nonlinear_diffusion
    from .own_error import OwnError, estimate_error, relative_l2
    from .paper_schemes import (
        adams_nonlinear_diffusion,
        box_advection,
        coarse_burgers,
        crank_nicolson_reaction,
        euler_heat,
    )
    from .series import evaluate_sine_series, sine_coefficients, solve_heat
    from .spectral import Flow, solve_burgers, solve_navier_stokes, velocity_from_vorticity

__all__ = [
    "Flow",
    "OwnError",
    "adams_nonlinear_diffusion",
    "box_advection",
    "coarse_burgers",
    "crank_nicolson_reaction",
    "estimate_error",
    "euler_heat",
    "evaluate_sine_series",
    "relative_l2",
    "sine_coefficients",
    "solve_advection",
    "solve_burgers",
    "solve_diffusion_reaction",
    "solve_heat",
    "solve_navier_stokes",
    "solve_nonlinear_diffusion",
    "velocity_from_vorticity",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "characteristics": ["solve_advection"],
        "finite_difference": ["solve_diffusion_reaction"],
        "method_of_lines": ["solve_nonlinear_diffusion"],
        "own_error": ["OwnError", "estimate_error", "relative_l2"],
        "paper_schemes": [
            "adams_nonlinear_diffusion",
            "box_advection",
            "coarse_burgers",
            "crank_nicolson_reaction",
            "euler_heat",
        ],
        "series": ["evaluate_sine_series", "sine_coefficients", "solve_heat"],
        "spectral": ["Flow", "solve_burgers", "solve_navier_stokes", "velocity_from_vorticity"],
    },
)
