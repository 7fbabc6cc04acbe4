"""The coarse schemes behind the paper's reference solutions, so that an error can be quoted against both.

They march on the output grid itself, and are not meant to be accurate. Two differ from the paper's text, since the
text's would be unstable on its own grid: the "Lax-Wendroff" scheme on 128^2 points has Courant numbers u dt / h > 1
(what was run is Wendroff's implicit box scheme, about 0.8% off), and forward Euler on 128 points needs 26 steps
between two of its 128 output times.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.linalg import solve_banded

from .._precision import double_precision
from .arguments import check_times, sample
from .spectral import solve_burgers


def box_advection(
    speed: Callable,
    initial: Callable,
    inflow: Callable,
    times: Float[np.ndarray, " t"],
    points: Float[np.ndarray, " x"],
) -> Float[np.ndarray, "functions t x"]:
    """s_t + u(x) s_x = 0 by Wendroff's box scheme: centred in t and x, implicit, swept from the inflow end.

    Arguments as for `solve_advection`; `times` starts at 0, `points` at the inflow end.
    """
    check_times(times)
    u = sample(speed, points)
    with double_precision():
        s = np.empty((u.shape[0], times.shape[0], points.shape[0]))
        s[:, 0, :] = initial(points)
        s[:, :, 0] = inflow(times)
    courant = np.diff(times)[None, :, None] * ((u[:, 1:] + u[:, :-1]) / 2 / np.diff(points))[:, None, :]
    kappa = (1 - courant) / (1 + courant)
    for n in range(times.shape[0] - 1):
        for j in range(points.shape[0] - 1):
            s[:, n + 1, j + 1] = s[:, n, j] + kappa[:, n, j] * (s[:, n, j + 1] - s[:, n + 1, j])
    return s


def crank_nicolson_reaction(
    reaction: Callable,
    diffusivity: float,
    times: Float[np.ndarray, " t"],
    points: Float[np.ndarray, " x"],
    *,
    u: Callable,
) -> Float[np.ndarray, "functions t x"]:
    """s_t = D s_xx + reaction(s, u(x)), s = 0 initially and at both ends; the reaction is linearised in every step.

    Arguments as for `solve_diffusion_reaction`, with one species and no species axis in `reaction`.
    """
    check_times(times)
    h = _spacing(points)
    inner = sample(u, points[1:-1])
    functions, n = inner.shape
    s = np.zeros((functions, times.shape[0], n + 2))
    band = np.zeros((3, functions, n))
    for i, dt in enumerate(np.diff(times)):
        now = s[:, i, 1:-1]
        with double_precision():
            slope = (np.asarray(reaction(now + 1e-5, inner)) - np.asarray(reaction(now - 1e-5, inner))) / 2e-5
            rate = diffusivity / h**2 * np.diff(s[:, i], 2) + np.asarray(reaction(now, inner))
        # Row-wise the matrices of all functions are one, with no coupling between neighbours.
        band[0, :, 1:] = band[2, :, :-1] = -dt * diffusivity / (2 * h**2)
        band[1] = 1 + dt * diffusivity / h**2 - dt / 2 * slope
        change = solve_banded((1, 1), band.reshape(3, -1), dt * rate.reshape(-1))
        s[:, i + 1, 1:-1] = now + change.reshape(functions, n)
    return s


def euler_heat(
    initial: Callable,
    times: Float[np.ndarray, " t"],
    points: Float[np.ndarray, " x"],
    *,
    diffusivity: float = 1 / np.pi**2,
) -> Float[np.ndarray, "functions t x"]:
    """s_t = diffusivity s_xx, s = 0 at both ends, by forward Euler with as few steps as are stable."""
    check_times(times)
    h = _spacing(points)
    s = sample(initial, points)
    s[:, [0, -1]] = 0.0
    states = [s]
    for interval in np.diff(times):
        steps = int(np.ceil(2 * diffusivity * interval / h**2))
        for _ in range(steps):
            s = s.copy()
            s[:, 1:-1] += interval / steps * diffusivity / h**2 * np.diff(s, 2)
        states.append(s)
    return np.stack(states, axis=1)


def coarse_burgers(
    initial: Callable, nu: float, times: Float[np.ndarray, " t"], points: Float[np.ndarray, " x"]
) -> Float[np.ndarray, "functions t x"]:
    """s_t + s s_x = nu s_xx by ETDRK4 with as many modes as the points allow, over the period that they span."""
    _spacing(points)
    interval = (float(points[0]), float(points[-1]))
    return solve_burgers(initial, nu, times, points, interval=interval, resolution=points.shape[0] - 1)


def adams_nonlinear_diffusion(
    initial: Callable,
    alpha: float,
    times: Float[np.ndarray, " t"],
    points: tuple[Float[np.ndarray, " x"], Float[np.ndarray, " y"]],
) -> Float[np.ndarray, "functions t x y"]:
    """s_t = alpha div(s grad s), the boundary frozen, by the explicit Adams method of order two."""
    check_times(times)
    h = _spacing(points[0])
    if not np.isclose(h, _spacing(points[1]), rtol=1e-9):
        raise ValueError("both axes must have the same spacing; got points with two")
    result = np.stack([sample(initial, *points)] * times.shape[0], axis=1)

    def rate(s: Float[np.ndarray, "x y"]) -> Float[np.ndarray, "x-2 y-2"]:
        q = alpha / (2 * h**2) * s * s
        return q[2:, 1:-1] + q[:-2, 1:-1] + q[1:-1, 2:] + q[1:-1, :-2] - 4 * q[1:-1, 1:-1]

    for states in result:
        # Stable on the real axis up to dt * 8 alpha max(s) / h^2 = 1, and the maximum only decays.
        steps = np.ceil(np.diff(times) * 10 * alpha * states[0].max() / h**2).astype(int)
        s, before = states[0].copy(), rate(states[0])
        for i, count in enumerate(steps):
            dt = (times[i + 1] - times[i]) / count
            for _ in range(count):
                now = rate(s)
                s[1:-1, 1:-1] += dt * (1.5 * now - 0.5 * before)
                before = now
            states[i + 1] = s
    return result


def _spacing(points: Float[np.ndarray, " n"]) -> float:
    """The spacing of an equispaced grid."""
    spacings = np.diff(points)
    if points.shape[0] < 3 or not np.allclose(spacings, spacings.mean(), rtol=1e-6) or spacings.mean() <= 0:
        raise ValueError(f"the paper's schemes need at least three equispaced, increasing points; got {points}")
    return float(spacings.mean())
