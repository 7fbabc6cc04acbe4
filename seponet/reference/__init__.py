"""Reference solutions, one file per method; each states and tests its order.

Solvers are batched: they take callables for the input functions, arrays for the output times and points, and return
float64 NumPy arrays `[functions, t, x(, y)]`, whatever the user's JAX precision. `resolution` refines space, and time
where the steps are fixed (`solve_nonlinear_diffusion` chooses its own, by `tolerance`), so that
`estimate_error(lambda n: solve(..., resolution=n), n)` is the error of the reference itself.
"""

from .characteristics import solve_advection as solve_advection
from .exponential import solve_semilinear as solve_semilinear
from .finite_difference import solve_diffusion_reaction as solve_diffusion_reaction
from .inputs import as_callable as as_callable
from .method_of_lines import solve_nonlinear_diffusion as solve_nonlinear_diffusion
from .paper_like import adams_nonlinear_diffusion as adams_nonlinear_diffusion
from .paper_like import box_advection as box_advection
from .paper_like import coarse_burgers as coarse_burgers
from .paper_like import crank_nicolson_reaction as crank_nicolson_reaction
from .paper_like import euler_heat as euler_heat
from .refinement import OwnError as OwnError
from .refinement import estimate_error as estimate_error
from .refinement import relative_l2 as relative_l2
from .series import evaluate_sine_series as evaluate_sine_series
from .series import sine_coefficients as sine_coefficients
from .series import solve_heat as solve_heat
from .spectral import Flow as Flow
from .spectral import solve_burgers as solve_burgers
from .spectral import solve_navier_stokes as solve_navier_stokes
from .spectral import velocity_from_vorticity as velocity_from_vorticity
