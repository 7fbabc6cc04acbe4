import numpy as np
import pytest

from seponet.reference import relative_l2, solve_nonlinear_diffusion

ALPHA = 0.05
TIMES = np.array([0.0, 0.4, 1.0])
AXIS = np.linspace(-1, 1, 13)
X, Y = AXIS[:, None], AXIS


def solve(initial, resolution, extrapolate, **options):
    return solve_nonlinear_diffusion(
        initial, ALPHA, TIMES, (AXIS, AXIS), resolution=resolution, extrapolate=extrapolate, **options
    )


def small_wave(resolution, extrapolate):
    """1 + eps sin(pi x) sin(pi y) decays like the linear equation, at the rate 2 alpha pi^2.

    What is quadratic in eps cancels between +eps and -eps.
    """
    eps = 1e-4 * np.array([1, -1])[:, None, None]
    s = solve(
        lambda x, y: 1 + eps * np.sin(np.pi * x[:, None]) * np.sin(np.pi * y), resolution, extrapolate, tolerance=1e-12
    )
    exact = np.exp(-2 * ALPHA * np.pi**2 * TIMES)[:, None, None] * np.sin(np.pi * X) * np.sin(np.pi * Y)
    return relative_l2((s[:1] - s[1:]) / 2e-4, exact[None]).max()


def test_second_order_in_space_and_fourth_with_extrapolation():
    plain = [small_wave(n, False) for n in (12, 24)]
    assert np.abs(np.log2(np.divide(plain[:-1], plain[1:])) - 2).max() < 0.2
    extrapolated = [small_wave(n, True) for n in (24, 48)]
    assert abs(np.log2(extrapolated[0] / extrapolated[1]) - 4) < 0.2


def test_harmonic_squares_are_steady_at_second_order():
    """Where s^2 is harmonic nothing moves: s = sqrt(8 + e^{2x} sin 2y), with the boundary frozen at these values."""

    def error(n):
        s = solve(lambda x, y: np.sqrt(8 + np.exp(2 * x[:, None]) * np.sin(2 * y))[None], n, False)
        return relative_l2(s, np.broadcast_to(np.sqrt(8 + np.exp(2 * X) * np.sin(2 * Y)), s.shape)).max()

    errors = [error(n) for n in (12, 24, 48)]
    assert np.abs(np.log2(np.divide(errors[:-1], errors[1:])) - 2).max() < 0.2


def barenblatt(time, x, y):
    """The exact solution that spreads from a point; alpha/2 Laplacian(s^2) has its time scaled by alpha/2."""
    tau = ALPHA / 2 * time
    return np.maximum(0, 0.1 - (x**2 + y**2) / (16 * np.sqrt(tau))) / np.sqrt(tau)


def test_compact_support_spreads_as_barenblatt():
    """A moving front, where s has a corner: first order is all one may ask, and no mass may be lost."""
    start = 1.0
    exact = np.stack([barenblatt(start + t, X, Y) for t in TIMES])[None]
    assert exact[:, :, 0].max() == 0 < exact.max()
    errors = [
        relative_l2(solve(lambda x, y: barenblatt(start, x[:, None], y)[None], n, False), exact).max()
        for n in (24, 48, 96)
    ]
    assert errors[2] < errors[1] < errors[0] < 0.05
    assert np.log2(errors[0] / errors[2]) / 2 > 1.0

    cells = 40
    nodes = np.linspace(-1, 1, cells + 1)
    s = solve_nonlinear_diffusion(
        lambda x, y: barenblatt(start, x[:, None], y)[None],
        ALPHA,
        TIMES,
        (nodes, nodes),
        resolution=cells,
        extrapolate=False,
    )
    mass = s.sum((2, 3))
    np.testing.assert_allclose(mass, np.broadcast_to(mass[:, :1], mass.shape), rtol=1e-6)


def test_batch_equals_single_and_boundary_is_frozen():
    c = np.array([0.1, -0.3])[:, None, None]

    def bumps(rows):
        return lambda x, y: 0.5 * np.exp(-4 * (x[:, None] - c[rows]) ** 2 - 3 * y**2)

    both = solve(bumps([0, 1]), 24, True)
    for i in range(2):
        np.testing.assert_allclose(solve(bumps([i]), 24, True)[0], both[i], atol=1e-12)
    edge = both[:, :, [0, -1]]
    np.testing.assert_allclose(edge, np.broadcast_to(edge[:, :1], edge.shape), atol=1e-14)
    assert edge.max() > 1e-2


def test_negative_values_are_refused():
    with pytest.raises(ValueError, match="negative"):
        solve(lambda x, y: (x[:, None] * y)[None], 24, True)
