"""Periodic flows by Fourier spectral methods: Burgers in one dimension, Navier-Stokes in two.

Fourth-order exponential time differencing (ETDRK4, exponax) treats diffusion exactly, products are de-aliased by the
two-thirds rule, and outputs are the trigonometric interpolant. The step is a Courant number times the spacing over the
largest initial speed, so that doubling the resolution refines time as well.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import exponax
import jax
import numpy as np
from jaxtyping import Array, Float

from .._precision import double_precision
from .arguments import check_times, sample
from .interpolation import fourier_matrix


class Flow(NamedTuple):
    """A two-dimensional incompressible flow without mean velocity."""

    velocity: Float[np.ndarray, "2 functions t x y"]
    vorticity: Float[np.ndarray, "functions t x y"]


def solve_burgers(
    initial: Callable,
    nu: float,
    times: Float[np.ndarray, " t"],
    points: Float[np.ndarray, " x"],
    *,
    interval: tuple[float, float] = (0.0, 1.0),
    resolution: int = 256,
    courant: float = 0.5,
) -> Float[np.ndarray, "functions t x"]:
    r"""Solve $s_t + s s_x = \nu s_{xx}$, $s(0, x) = u(x)$, periodic over `interval`.

    **Arguments:**

    - `initial`: `x [n] -> u [functions, n]`.
    - `times`, `points`: where the solution is wanted.
    - `resolution`: equispaced points, of which the two-thirds rule keeps resolution / 3 modes.
    - `courant`: how far the fastest point moves in a step, in grid spacings.
    """
    check_times(times)
    lower, period = interval[0], interval[1] - interval[0]
    u = sample(initial, lower + period * np.arange(resolution) / resolution)
    states = _advance(_burgers, nu, period, u, times, courant, np.abs(u).max())
    return states @ fourier_matrix(resolution, points - lower, period).T


def solve_navier_stokes(
    vorticity: Callable,
    nu: float,
    times: Float[np.ndarray, " t"],
    points: tuple[Float[np.ndarray, " x"], Float[np.ndarray, " y"]],
    *,
    period: float = 2 * np.pi,
    resolution: int = 192,
    courant: float = 0.75,
) -> Flow:
    r"""Solve $\omega_t + s \cdot \nabla\omega = \nu \Delta\omega$, $\omega = \partial_x s_y - \partial_y s_x$.

    **Arguments:**

    - `vorticity`: `(x [n], y [n]) -> [functions, n, n]`, the initial vorticity on the periodic square [0, period)^2.
    - `times`, `points`: where the solution is wanted: on the grid of all t, x and y.
    - `resolution`: equispaced points per axis, of which the two-thirds rule keeps resolution / 3 modes.
    - `courant`: how far the fastest point moves in a step, in grid spacings.
    """
    check_times(times)
    axis = period * np.arange(resolution) / resolution
    w = sample(vorticity, axis, axis)
    speed = np.sqrt((velocity_from_vorticity(w, period) ** 2).sum(0)).max()
    states = _advance(_navier_stokes, nu, period, w, times, courant, speed)
    to_x, to_y = (fourier_matrix(resolution, p, period) for p in points)
    # One function at a time: the velocities of all on the solver's grid would be by far the largest array.
    velocity = np.stack([to_x @ velocity_from_vorticity(w, period) @ to_y.T for w in states], axis=1)
    return Flow(velocity, np.stack([to_x @ w @ to_y.T for w in states]))


def velocity_from_vorticity(
    vorticity: Float[np.ndarray, "*batch n n"], period: float = 2 * np.pi
) -> Float[np.ndarray, "2 *batch n n"]:
    """The divergence-free velocity without mean whose curl is `vorticity`, both on an equispaced periodic grid."""
    n = vorticity.shape[-1]
    modes = np.fft.fftfreq(n, 1 / n)[:, None], np.fft.rfftfreq(n, 1 / n)
    square = modes[0] ** 2 + modes[1] ** 2
    square[0, 0] = 1.0
    stream = -period / (2 * np.pi) * np.fft.rfft2(vorticity) / square
    # A derivative of the Nyquist mode is zero at the grid points.
    d_x, d_y = (1j * np.where(2 * np.abs(k) == n, 0, k) for k in modes)
    return np.stack([np.fft.irfft2(-d_y * stream, (n, n)), np.fft.irfft2(d_x * stream, (n, n))])


Stepper = Callable[[Any, Any, int, Any], exponax.BaseStepper]
"""(nu, period, resolution, dt) -> one step in Fourier space; nu, period and dt may be traced."""


def _burgers(nu: Any, period: Any, resolution: int, dt: Any) -> exponax.BaseStepper:
    return exponax.stepper.Burgers(1, period, resolution, dt, diffusivity=nu, conservative=True, order=4)


def _navier_stokes(nu: Any, period: Any, resolution: int, dt: Any) -> exponax.BaseStepper:
    # exponax's vorticity is the negative of ours (its velocity is (psi_y, -psi_x) where Laplacian psi is it), which is
    # what a negative convection scale says.
    return exponax.stepper.NavierStokesVorticity(
        2, period, resolution, dt, diffusivity=nu, vorticity_convection_scale=-1.0, order=4
    )


def _advance(
    stepper: Stepper,
    nu: float,
    period: float,
    initial: Float[np.ndarray, "functions *grid"],
    times: Float[np.ndarray, " t"],
    courant: float,
    speed: float,
) -> Float[np.ndarray, "functions t *grid"]:
    """The states at `times`, `[functions, t, *grid]`, with equal steps between one time and the next."""
    intervals = np.diff(times, prepend=0.0)
    longest = courant * period / initial.shape[-1] / max(speed, 1e-12)
    counts = np.ceil(intervals / longest - 1e-9).astype(np.int32)
    with double_precision():
        return np.asarray(_run(stepper, nu, period, initial, intervals / np.maximum(counts, 1), counts))


@partial(jax.jit, static_argnums=0)
def _run(stepper: Stepper, nu: Any, period: Any, initial: Array, steps: Array, counts: Array) -> Array:
    dimensions, resolution = initial.ndim - 1, initial.shape[-1]

    def between(state: Array, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        dt, count = interval
        step = stepper(nu, period, resolution, dt).step_fourier
        state = jax.lax.fori_loop(0, count, lambda _, s: step(s), state)
        return state, exponax.ifft(state, num_spatial_dims=dimensions, num_points=resolution)[0]

    def one(state: Array) -> Array:
        return jax.lax.scan(between, exponax.fft(state[None], num_spatial_dims=dimensions), (steps, counts))[1]

    # A few functions at a time stay in cache and still occupy all cores.
    return jax.lax.map(one, initial, batch_size=8)
