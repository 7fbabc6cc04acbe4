r"""Two-dimensional nonlinear diffusion $s_t = \alpha \nabla\cdot(s \nabla s)$ by the method of lines.

As $s\nabla s = \nabla s^2/2$, the five-point Laplacian of $s^2/2$ is a second-order scheme in flux form: what leaves a
cell enters its neighbour. An adaptive explicit Runge-Kutta method (Tsit5, Diffrax) integrates the values inside in
time, with an error far below that of space; Richardson extrapolation over two grids removes the second-order error of
space. Values on the boundary stay what they are initially.
"""

from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._precision import double_precision
from .arguments import check_times, check_within, sample
from .interpolation import spline_matrix


def solve_nonlinear_diffusion(
    initial: Callable,
    alpha: float,
    times: Float[np.ndarray, " t"],
    points: tuple[Float[np.ndarray, " x"], Float[np.ndarray, " y"]],
    *,
    interval: tuple[float, float] = (-1.0, 1.0),
    resolution: int = 100,
    extrapolate: bool = True,
    tolerance: float = 1e-6,
) -> Float[np.ndarray, "functions t x y"]:
    """Solve s_t = alpha div(s grad s), s(0, x, y) = initial(x, y), on the square of `interval`, the boundary frozen.

    **Arguments:**

    - `initial`: `(x [n], y [n]) -> [functions, n, n]`, not negative.
    - `times`, `points`: where the solution is wanted: on the grid of all t, x and y.
    - `resolution`: cells per axis.
    - `extrapolate`: combine this grid with the one of half the resolution; without it the order is two.
    - `tolerance`: of the time integration, relative; absolute it is a hundredth of that.
    """
    check_times(times)
    for p in points:
        check_within(p, interval)
    if resolution < 12 or resolution % 2:
        raise ValueError(f"`resolution` must be an even number of at least 12 cells; got {resolution}")

    def solve(cells: int) -> Float[np.ndarray, "functions t x y"]:
        nodes = np.linspace(*interval, cells + 1)
        s = sample(initial, nodes, nodes)
        if s.min() < 0:
            raise ValueError(
                f"the initial function must not be negative, where the equation is ill-posed; got {s.min()}"
            )
        to_points = tuple(spline_matrix(nodes, p) for p in points)
        diffusion = alpha / (2 * (nodes[1] - nodes[0]) ** 2)
        result = np.empty((s.shape[0], times.shape[0], *(p.shape[0] for p in points)))
        with double_precision():
            # One function at a time: its grid stays in cache and it chooses its own steps.
            for i, s_i in enumerate(s):
                result[i] = _integrate(s_i, diffusion, times, to_points, tolerance)
        return result

    s = solve(resolution)
    if not extrapolate:
        return s
    coarse = solve(resolution // 2)
    s *= 4 / 3
    s -= coarse / 3
    return s


@jax.jit
def _integrate(
    s: Float[Array, "n n"],
    diffusion: Float[Array, ""],
    times: Float[Array, " t"],
    to_points: tuple[Float[Array, "x n"], Float[Array, "y n"]],
    tolerance: Float[Array, ""],
) -> Float[Array, "t x y"]:
    """The solution at the wanted times and points; `diffusion` is alpha / (2 h^2)."""

    def rate(_t: Any, s: Float[Array, "n n"], _: None) -> Float[Array, "n n"]:
        q = diffusion * s * s
        laplacian = q[2:, 1:-1] + q[:-2, 1:-1] + q[1:-1, 2:] + q[1:-1, :-2] - 4 * q[1:-1, 1:-1]
        return jnp.pad(laplacian, 1)

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(rate),
        diffrax.Tsit5(),
        t0=0.0,
        t1=times[-1],
        dt0=None,
        y0=s,
        saveat=diffrax.SaveAt(ts=times, fn=lambda _t, s, _: to_points[0] @ s @ to_points[1].T),
        stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance / 100),
        max_steps=None,
    )
    return jnp.asarray(solution.ys)
