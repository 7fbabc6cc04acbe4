r"""Advection with variable speed, exactly: $s_t + u(x) s_x = 0$ for $u > 0$ is constant along characteristics.

With the travel time $X(x) = \int_a^x dz / u(z)$ from the inflow end a, $X(x) - t$ is constant along them, so
$s(t, x) = s_0(X^{-1}(X(x) - t))$ where $X(x) \ge t$, and the inflow value at the time $t - X(x)$ elsewhere.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev

from .._precision import double_precision
from .arguments import check_times, check_within, sample

TABLE = 4096
"""Entries of the table that starts Newton's method: its error, ~1e-7, squares away in one step."""


def solve_advection(
    speed: Callable,
    initial: Callable,
    inflow: Callable,
    times: Float[np.ndarray, " t"],
    points: Float[np.ndarray, " x"],
    *,
    interval: tuple[float, float] = (0.0, 1.0),
    resolution: int = 128,
) -> Float[np.ndarray, "functions t x"]:
    """Solve s_t + u(x) s_x = 0 with `s(0, x) = initial(x)` and `s(t, lower) = inflow(t)`.

    **Arguments:**

    - `speed`: `x [n] -> u [functions, n]`, smooth and positive.
    - `initial`, `inflow`: elementwise functions of x and of t; they are called with arrays `[functions, t, x]`.
    - `times`, `points`: where the solution is wanted.
    - `resolution`: Chebyshev nodes for 1/u; the error decays geometrically with it.
    """
    check_times(times)
    check_within(points, interval)
    lower, upper = interval
    half = (upper - lower) / 2
    angles = np.pi * (np.arange(resolution) + 0.5) / resolution
    u = sample(speed, lower + half * (np.cos(angles) + 1))
    if u.min() <= 0:
        raise ValueError(f"the speed must be positive, so that x = {lower} is the inflow end; its minimum is {u.min()}")

    slowness = 2 / resolution * np.cos(np.outer(np.arange(resolution), angles)) @ (1 / u).T
    slowness[0] /= 2
    travel_time = chebyshev.chebint(half * slowness, lbnd=-1)

    reference_points = (points - lower) / half - 1
    remaining = chebyshev.chebval(reference_points, travel_time)[:, None, :] - times[:, None]
    # One function at a time: Clenshaw's recurrence then works in cache.
    feet = np.stack(
        [_invert(*args) for args in zip(travel_time.T, half * slowness.T, np.maximum(remaining, 0), strict=True)]
    )
    feet = lower + half * (feet + 1)
    with double_precision():
        return np.where(remaining >= 0, np.asarray(initial(feet)), np.asarray(inflow(np.maximum(-remaining, 0))))


def _invert(
    series: Float[np.ndarray, " k"], derivative: Float[np.ndarray, " k-1"], values: Float[np.ndarray, "t x"]
) -> Float[np.ndarray, "t x"]:
    """The inverse of an increasing Chebyshev series at `values`, by Newton's method started from a table."""
    table = np.linspace(-1, 1, TABLE)
    z = np.interp(values, chebyshev.chebval(table, series), table)
    # The second step is for speeds that vary on the scale of the table.
    for _ in range(2):
        z = np.clip(z - (chebyshev.chebval(z, series) - values) / chebyshev.chebval(z, derivative), -1, 1)
    return z
