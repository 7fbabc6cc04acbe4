r"""The heat equation by separation of variables: $s = \sum_k A_k e^{-\kappa (k\pi/L)^2 t} \sin(k\pi (x-a)/L)$."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from .arguments import check_times, check_within, sample


def sine_coefficients(
    initial: Callable, modes: int, interval: tuple[float, float] = (0.0, 1.0)
) -> Float[np.ndarray, "functions {modes}"]:
    r"""$A_k = 2/L \int u(x) \sin(k\pi (x-a)/L) dx$ for k = 1..modes, by composite Gauss quadrature.

    A panel of 32 nodes for every eight modes: eight nodes per wavelength of the highest sine, hence exact to rounding
    for inputs as smooth as that.
    """
    nodes, weights = np.polynomial.legendre.leggauss(32)
    panels = -(-modes // 8)
    angle = np.pi / panels * (np.arange(panels)[:, None] + (nodes + 1) / 2).reshape(-1)
    weights = np.tile(weights, panels) / panels
    u = sample(initial, interval[0] + (interval[1] - interval[0]) * angle / np.pi)
    return (u * weights) @ np.sin(np.outer(angle, np.arange(1, modes + 1)))


def evaluate_sine_series(
    coefficients: Float[np.ndarray, "functions modes"],
    times: Float[np.ndarray, " t"],
    points: Float[np.ndarray, " x"],
    *,
    diffusivity: float = 1 / np.pi**2,
    interval: tuple[float, float] = (0.0, 1.0),
    rank: int | None = None,
) -> Float[np.ndarray, "functions t x"]:
    """The solution of s_t = diffusivity s_xx with s = 0 at both ends, from its sine coefficients at t = 0.

    **Arguments:**

    - `coefficients`: `A_k`, k = 1..modes.
    - `rank`: keep the first `rank` terms only: what a separable model of that rank with the sine basis reaches.
    """
    check_times(times)
    check_within(points, interval)
    kept = coefficients[:, :rank]
    k = np.arange(1, kept.shape[1] + 1) * np.pi / (interval[1] - interval[0])
    decay = np.exp(-diffusivity * times[:, None] * k**2)
    return (kept[:, None, :] * decay) @ np.sin(np.outer(k, points - interval[0]))


def solve_heat(
    initial: Callable,
    times: Float[np.ndarray, " t"],
    points: Float[np.ndarray, " x"],
    *,
    diffusivity: float = 1 / np.pi**2,
    interval: tuple[float, float] = (0.0, 1.0),
    resolution: int = 256,
    rank: int | None = None,
) -> Float[np.ndarray, "functions t x"]:
    """Solve s_t = diffusivity s_xx, s(0, x) = initial(x), s = 0 at both ends, with `resolution` sine modes.

    **Arguments:**

    - `initial`: `x [n] -> u [functions, n]`.
    - `times`, `points`: where the solution is wanted.
    - `rank`: truncate the series there, as in the paper's study of the rank.
    """
    coefficients = sine_coefficients(initial, resolution, interval)
    return evaluate_sine_series(coefficients, times, points, diffusivity=diffusivity, interval=interval, rank=rank)
