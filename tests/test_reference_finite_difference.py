import numpy as np
import pytest

from seponet.reference import relative_l2, solve_diffusion_reaction, solve_heat

TIMES = np.array([0.0, 0.25, 0.6, 1.0])
POINTS = np.linspace(0, 1, 21)
D = 0.05


def order(error, resolutions):
    errors = np.array([error(n) for n in resolutions])
    return np.log2(errors[:-1] / errors[1:])


def blow_up(resolution, extrapolate):
    """s = sin(pi x) / (2 - t) solves s_t = D s_xx + s^2 / sin(pi x) + D pi^2 s."""
    s = solve_diffusion_reaction(
        lambda s, u: s**2 * u + D * np.pi**2 * s,
        D,
        TIMES,
        POINTS,
        u=lambda x: 1 / np.sin(np.pi * x)[None],
        initial=lambda x: np.sin(np.pi * x)[None] / 2,
        resolution=resolution,
        extrapolate=extrapolate,
    )
    return relative_l2(s, (np.sin(np.pi * POINTS) / (2 - TIMES[:, None]))[None]).max()


def test_second_order_for_a_nonlinear_reaction():
    assert np.abs(order(lambda n: blow_up(n, False), (16, 32, 64, 128)) - 2).max() < 0.2


def test_extrapolation_gains_at_least_one_order():
    assert order(lambda n: blow_up(n, True), (32, 64, 128)).min() > 2.8
    assert blow_up(64, True) < blow_up(64, False) / 30


def test_species_with_different_diffusivities():
    """(p, q) = (cos wt, sin wt) sin(pi x): a rotation whose two diffusions are compensated."""
    w, d = 2.0, np.array([0.02, 0.07])

    def reaction(s, _):
        p, q = s
        return np.stack([d[0] * np.pi**2 * p - w * q, d[1] * np.pi**2 * q + w * p])

    def error(n):
        s = solve_diffusion_reaction(
            reaction,
            tuple(d),
            TIMES,
            POINTS,
            initial=lambda x: np.stack([np.sin(np.pi * x), 0 * x])[:, None],
            resolution=n,
            extrapolate=False,
        )
        assert s.shape == (2, 1, 4, 21)
        phase = np.stack([np.cos(w * TIMES), np.sin(w * TIMES)])
        return np.abs(s[:, 0] - phase[:, :, None] * np.sin(np.pi * POINTS)).max()

    assert np.abs(order(error, (16, 32, 64)) - 2).max() < 0.2


def test_source_that_contradicts_the_boundary():
    """s_t = D s_xx + u, s = 0 initially: exact by the sine series, with a layer of width sqrt(D t) where u is not 0.

    The steady state w of u = 1 + cos(3 pi x) is known, and s - w solves the heat equation.
    """
    diffusivity = 0.01
    times = np.linspace(0, 1, 65)

    def steady(x):
        return (x * (1 - x) / 2 + (np.cos(3 * np.pi * x) - 1 + 2 * x) / (3 * np.pi) ** 2)[None] / diffusivity

    exact = steady(POINTS) - solve_heat(steady, times[1:], POINTS, diffusivity=diffusivity, resolution=400)
    s = solve_diffusion_reaction(
        lambda s, u: 0 * s + u,
        diffusivity,
        times,
        POINTS,
        u=lambda x: (1 + np.cos(3 * np.pi * x))[None],
        resolution=256,
    )
    assert relative_l2(s[:, 1:], exact).max() < 1e-6
    assert relative_l2(s[:, 1:3], exact[:, :2]).max() < 1e-4


def test_ends_stay_at_their_initial_values():
    """Pure diffusion: the linear part, which carries the ends, must stay and the sine decay."""
    s = solve_diffusion_reaction(
        lambda s, _: 0 * s, D, TIMES, POINTS, initial=lambda x: (2 + x + np.sin(2 * np.pi * x))[None], resolution=64
    )
    exact = 2 + POINTS + np.exp(-D * 4 * np.pi**2 * TIMES[:, None]) * np.sin(2 * np.pi * POINTS)
    np.testing.assert_allclose(s[0], exact, atol=2e-5)


def test_batch_equals_single():
    a = np.random.default_rng(0).standard_normal((3, 4))

    def solve(rows):
        return solve_diffusion_reaction(
            lambda s, u: 0.5 * s**2 + u,
            D,
            TIMES,
            POINTS,
            u=lambda x: a[rows] @ np.cos(np.outer(np.arange(4), x)),
            resolution=32,
        )

    together = solve(slice(None))
    for i in range(3):
        np.testing.assert_allclose(solve([i])[0], together[i], atol=1e-9)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="even number"):
        solve_diffusion_reaction(lambda s, _: s, D, TIMES, POINTS, resolution=33)
    with pytest.raises(ValueError, match="increase strictly"):
        solve_diffusion_reaction(lambda s, _: s, D, TIMES[::-1].copy(), POINTS)
    with pytest.raises(ValueError, match="must lie in"):
        solve_diffusion_reaction(lambda s, _: s, D, TIMES, POINTS + 1)
    with pytest.raises(ValueError, match="leading axis"):
        solve_diffusion_reaction(lambda s, u: s + u, D, TIMES, POINTS, u=lambda x: x)
