import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ive

from seponet.reference import relative_l2, solve_burgers, solve_navier_stokes, velocity_from_vorticity

TIMES = np.array([0.0, 0.2, 1.0])
POINTS = np.linspace(0, 1, 23)


def cole_hopf(nu, amplitude):
    """Burgers with u = amplitude sin(2 pi x): s = -2 nu phi_x / phi, where phi solves the heat equation.

    phi(0, x) = exp(z cos 2 pi x), z = amplitude / (4 pi nu), has the Bessel functions I_k(z) as Fourier coefficients.
    """
    k = np.arange(1, 80)
    decay = 2 * ive(k, amplitude / (4 * np.pi * nu)) * np.exp(-nu * (2 * np.pi * k) ** 2 * TIMES[:, None])
    angle = 2 * np.pi * np.outer(k, POINTS)
    phi = ive(0, amplitude / (4 * np.pi * nu)) + decay @ np.cos(angle)
    return 2 * nu * (decay * 2 * np.pi * k) @ np.sin(angle) / phi


def burgers(resolution, courant=0.5):
    return solve_burgers(
        lambda x: np.sin(2 * np.pi * x)[None] / 2, 0.01, TIMES, POINTS, resolution=resolution, courant=courant
    )


def test_burgers_converges_spectrally_to_cole_hopf():
    exact = cole_hopf(0.01, 0.5)[None]
    errors = [relative_l2(burgers(n), exact).max() for n in (32, 64, 128, 256)]
    assert errors[1] < errors[0] / 10
    assert errors[2] < errors[1] / 100
    assert errors[3] < 1e-8


def test_burgers_is_fourth_order_in_time():
    exact = cole_hopf(0.01, 0.5)[None]
    errors = [relative_l2(burgers(192, c), exact).max() for c in (4.0, 2.0, 1.0)]
    assert np.abs(np.log2(np.divide(errors[:-1], errors[1:])) - 4).max() < 0.2


def test_burgers_on_another_interval():
    """Burgers is invariant under x -> a x, s -> a s, nu -> a^2 nu, and under translation."""
    scaled = solve_burgers(
        lambda x: np.sin(np.pi * (x + 1))[None], 0.04, TIMES, 2 * POINTS - 1, interval=(-1.0, 1.0), resolution=128
    )
    np.testing.assert_allclose(scaled, 2 * burgers(128), atol=1e-7)


def two_modes(x, y):
    """cos(x) cos(y) is steady under convection, cos(x) cos(2y) + 2 sin(x - y) is not."""
    x = x[:, None]
    return np.stack(
        [2 * np.cos(x) * np.cos(y), np.cos(x) * np.cos(2 * y) + 2 * np.sin(x - y) + 0.5 * np.sin(2 * x + y)]
    )


AXES = (np.linspace(0, 2 * np.pi, 9), np.linspace(0, 6, 7))


def test_taylor_green_decays_with_the_right_velocity():
    """omega = 2 cos x cos y e^{-2 nu t}, s = (-cos x sin y, sin x cos y) e^{-2 nu t}."""
    flow = solve_navier_stokes(lambda x, y: two_modes(x, y)[:1], 0.1, TIMES, AXES, resolution=24)
    x, y, decay = AXES[0][:, None], AXES[1], np.exp(-0.2 * TIMES)[:, None, None]
    np.testing.assert_allclose(flow.vorticity[0], 2 * np.cos(x) * np.cos(y) * decay, atol=1e-12)
    np.testing.assert_allclose(flow.velocity[0, 0], -np.cos(x) * np.sin(y) * decay, atol=1e-12)
    np.testing.assert_allclose(flow.velocity[1, 0], np.sin(x) * np.cos(y) * decay, atol=1e-12)


def test_vorticity_moves_with_the_velocity_and_not_against_it():
    """Early on, omega_t = -s . grad omega + nu Laplacian omega, all from the initial state on a grid."""
    n, nu, dt = 32, 0.02, 1e-3
    axis = 2 * np.pi * np.arange(n) / n
    w = two_modes(axis, axis)[1:]
    k = 1j * np.fft.fftfreq(n, 1 / n)
    w_x = np.fft.ifft(k[:, None] * np.fft.fft(w, axis=1), axis=1).real
    w_y = np.fft.ifft(k * np.fft.fft(w, axis=2), axis=2).real
    laplacian = np.fft.ifft2((k[:, None] ** 2 + k**2) * np.fft.fft2(w)).real
    s = velocity_from_vorticity(w)
    rate = -s[0] * w_x - s[1] * w_y + nu * laplacian
    flow = solve_navier_stokes(lambda x, y: two_modes(x, y)[1:], nu, np.array([dt, 2 * dt]), (axis, axis), resolution=n)
    early, later = flow.vorticity[:, 0], flow.vorticity[:, 1]
    np.testing.assert_allclose((4 * early - later - 3 * w) / (2 * dt), rate, atol=1e-4)
    assert np.abs(rate).max() > 1


def test_velocity_has_the_given_curl_and_no_divergence():
    n = 24
    axis = 3.0 * np.arange(n) / n
    angle = 2 * np.pi / 3 * axis
    w = two_modes(angle, angle)
    s_x, s_y = velocity_from_vorticity(w, 3.0)
    k = 2j * np.pi / 3 * np.fft.fftfreq(n, 1 / n)
    s_x, s_y = np.fft.fft2(s_x), np.fft.fft2(s_y)
    np.testing.assert_allclose(np.fft.ifft2(k[:, None] * s_y - k * s_x).real, w, atol=1e-12)
    np.testing.assert_allclose(np.fft.ifft2(k[:, None] * s_x + k * s_y), 0, atol=1e-12)


def test_navier_stokes_converges_spectrally():
    def solve(n):
        return solve_navier_stokes(two_modes, 0.02, TIMES, AXES, resolution=n).vorticity[1:]

    exact = solve(48)
    errors = [relative_l2(solve(n), exact).max() for n in (12, 24, 36)]
    assert errors[1] < errors[0] / 10
    assert errors[2] < errors[1] / 10


def test_navier_stokes_is_fourth_order_in_time():
    def solve(courant):
        # One long interval: its number of steps is rounded up.
        return solve_navier_stokes(
            two_modes, 0.02, np.array([0.0, 4.0]), AXES, resolution=24, courant=courant
        ).vorticity

    exact = solve(0.1)[1:, 1:]
    errors = [relative_l2(solve(c)[1:, 1:], exact).max() for c in (1.6, 0.8, 0.4)]
    assert np.abs(np.log2(np.divide(errors[:-1], errors[1:])) - 4).max() < 0.4


def test_batch_equals_single():
    flow = solve_navier_stokes(two_modes, 0.02, TIMES, AXES, resolution=24, courant=0.4)
    single = solve_navier_stokes(lambda x, y: two_modes(x, y)[1:], 0.02, TIMES, AXES, resolution=24, courant=0.4)
    # The steps differ, being chosen by the fastest function of a batch.
    np.testing.assert_allclose(single.vorticity[0], flow.vorticity[1], atol=1e-5)
    np.testing.assert_allclose(single.velocity[:, 0], flow.velocity[:, 1], atol=1e-5)
    both = solve_burgers(lambda x: np.stack([np.sin(2 * np.pi * x), np.cos(4 * np.pi * x)]) / 2, 0.01, TIMES, POINTS)
    np.testing.assert_allclose(both[:1], burgers(256), atol=1e-9)


def test_float32_users_get_double_precision_and_keep_their_setting():
    with jax.enable_x64(False):
        s = solve_burgers(lambda x: jnp.sin(2 * jnp.pi * x)[None] / 2, 0.01, TIMES, POINTS)
        assert jnp.zeros(1).dtype == jnp.float32
    assert s.dtype == np.float64
    np.testing.assert_allclose(s, burgers(256), atol=1e-12)
