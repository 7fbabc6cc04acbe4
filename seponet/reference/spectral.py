"""Periodic flows by Fourier spectral methods: Burgers in one dimension, Navier-Stokes in two.

Fourth-order exponential time differencing (ETDRK4, exponax) treats diffusion exactly, products are de-aliased by the
two-thirds rule, and outputs are the trigonometric interpolant. The step is a Courant number times the spacing over the
largest initial speed, so that doubling the resolution refines time as well.
"""

from collections.abc import Callable
from typing import NamedTuple

import exponax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .arguments import check_times, double_precision, sample
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

    def stepper(dt: jax.Array) -> exponax.BaseStepper:
        return exponax.stepper.Burgers(1, period, resolution, dt, diffusivity=nu, conservative=True, order=4)  # pyright: ignore[reportArgumentType]

    states = _advance(stepper, u, times, courant * period / resolution / max(np.abs(u).max(), 1e-12))
    return states @ fourier_matrix(resolution, points - lower, period).T


def solve_navier_stokes(
    vorticity: Callable,
    nu: float,
    times: Float[np.ndarray, " t"],
    points: tuple[Float[np.ndarray, " x"], Float[np.ndarray, " y"]],
    *,
    period: float = 2 * np.pi,
    resolution: int = 128,
    courant: float = 0.5,
) -> Flow:
    r"""Solve $\omega_t + s \cdot \nabla\omega = \nu \Delta\omega$, $\omega = \partial_x s_y - \partial_y s_x$, periodic.

    **Arguments:**

    - `vorticity`: `(x [n], y [n]) -> [functions, n, n]`, the initial vorticity on the square [0, period)^2.
    - `times`, `points`: where the solution is wanted: on the grid of all t, x and y.
    - `resolution`: equispaced points per axis, of which the two-thirds rule keeps resolution / 3 modes.
    - `courant`: how far the fastest point moves in a step, in grid spacings.
    """
    check_times(times)
    axis = period * np.arange(resolution) / resolution
    w = sample(vorticity, axis, axis)

    def stepper(dt: jax.Array) -> exponax.BaseStepper:
        # exponax's vorticity is the negative of ours (its velocity is (psi_y, -psi_x) with psi = 1/Laplacian of it), and
        # a negative convection scale says just that.
        return exponax.stepper.NavierStokesVorticity(
            2,
            period,
            resolution,
            dt,  # pyright: ignore[reportArgumentType]
            diffusivity=nu,
            vorticity_convection_scale=-1.0,
            order=4,
        )

    speed = np.sqrt((velocity_from_vorticity(w, period) ** 2).sum(0)).max()
    states = _advance(stepper, w, times, courant * period / resolution / max(speed, 1e-12))
    to_x, to_y = (fourier_matrix(resolution, p, period) for p in points)
    velocity = np.stack([to_x @ s @ to_y.T for s in velocity_from_vorticity(states, period)])
    return Flow(velocity, to_x @ states @ to_y.T)


def velocity_from_vorticity(
    vorticity: Float[np.ndarray, "*batch n n"], period: float = 2 * np.pi
) -> Float[np.ndarray, "2 *batch n n"]:
    """The divergence-free velocity without mean whose curl is the given field, both on an equispaced periodic grid."""
    n = vorticity.shape[-1]
    k = 2 * np.pi / period * np.fft.fftfreq(n, 1 / n)[:, None]
    l = 2 * np.pi / period * np.fft.rfftfreq(n, 1 / n)  # noqa: E741
    square = k**2 + l**2
    square[0, 0] = 1.0
    stream = -np.fft.rfft2(vorticity) / square
    # A derivative of the Nyquist mode is zero at the grid points.
    k, l = np.where(2 * np.abs(k) == n * 2 * np.pi / period, 0, k), np.where(2 * l == n * 2 * np.pi / period, 0, l)  # noqa: E741
    return np.stack([np.fft.irfft2(-1j * l * stream, (n, n)), np.fft.irfft2(1j * k * stream, (n, n))])


def _advance(
    stepper: Callable[[jax.Array], exponax.BaseStepper],
    initial: Float[np.ndarray, "functions *grid"],
    times: Float[np.ndarray, " t"],
    longest_step: float,
) -> Float[np.ndarray, "functions t *grid"]:
    """The states at the given times; equal steps, none longer than `longest_step`, between one time and the next."""
    intervals = np.diff(times, prepend=0.0)
    counts = np.ceil(intervals / longest_step - 1e-9).astype(np.int32)
    dimensions = initial.ndim - 1

    def between(state: jax.Array, interval: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        dt, count = interval
        step = stepper(dt).step_fourier
        state = jax.lax.fori_loop(0, count, lambda _, s: step(s), state)
        return state, exponax.ifft(state, num_spatial_dims=dimensions, num_points=initial.shape[-1])[0]

    @jax.jit
    def run(states: jax.Array, dt: jax.Array, counts: jax.Array) -> jax.Array:
        def one(state: jax.Array) -> jax.Array:
            return jax.lax.scan(between, exponax.fft(state[None], num_spatial_dims=dimensions), (dt, counts))[1]

        # A few functions at a time stay in cache and still occupy all cores.
        return jax.lax.map(one, states, batch_size=8)

    with double_precision():
        steps = jnp.asarray(intervals / np.maximum(counts, 1))
        return np.asarray(run(jnp.asarray(initial), steps, jnp.asarray(counts)))
