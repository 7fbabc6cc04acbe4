import itertools

import numpy as np
import pytest

from seponet.reference import estimate_error, solve_advection

TIMES = np.array([0.0, 0.3, 0.7, 1.0])
POINTS = np.linspace(0, 1, 33)


def initial(x):
    return np.sin(np.pi * x)


def inflow(t):
    return np.sin(np.pi / 2 * t)


def test_constant_speed_translates():
    c = np.array([0.5, 1.0, 3.0])[:, None, None]
    s = solve_advection(
        lambda x: np.broadcast_to(c[:, 0], (3, x.shape[0])), initial, inflow, TIMES, POINTS, resolution=16
    )
    t, x = TIMES[:, None], POINTS
    exact = np.where(x >= c * t, initial(x - c * t), inflow(t - x / c))
    np.testing.assert_allclose(s, exact, atol=1e-12)


def test_exponential_speed_has_closed_form():
    """u = e^x on [0, 1]: X = 1 - e^-x and X^-1(y) = -log(1 - y)."""
    s = solve_advection(lambda x: np.exp(x)[None], initial, inflow, TIMES, POINTS, resolution=32)
    remaining = 1 - np.exp(-POINTS) - TIMES[:, None]
    exact = np.where(remaining >= 0, initial(-np.log1p(-np.maximum(remaining, 0))), inflow(-remaining))
    np.testing.assert_allclose(s[0], exact, atol=1e-12)


def test_error_decays_geometrically():
    """u = 1 / (1 + a cos 6x): X is known, and 1/u is entire."""

    def error(resolution):
        s = solve_advection(
            lambda x: 1 / (1 + 0.9 * np.cos(6 * x))[None], lambda x: x, inflow, TIMES, POINTS, resolution=resolution
        )
        inside = s[0][POINTS + 0.15 * np.sin(6 * POINTS) >= TIMES[:, None]]
        travel = (POINTS + 0.15 * np.sin(6 * POINTS) - TIMES[:, None])[
            POINTS + 0.15 * np.sin(6 * POINTS) >= TIMES[:, None]
        ]
        return np.abs(inside + 0.15 * np.sin(6 * inside) - travel).max()

    errors = [error(n) for n in (6, 10, 14, 18)]
    assert all(fine < coarse / 20 for coarse, fine in itertools.pairwise(errors))
    assert error(32) < 1e-12


def test_batch_equals_single_and_own_error_is_small(rng):
    a = rng.standard_normal((3, 4))

    def speed(rows):
        return lambda x: np.exp(0.5 * a[rows] @ np.cos(np.outer(np.arange(4), 3 * x)))

    together = solve_advection(speed(slice(None)), initial, inflow, TIMES, POINTS)
    for i in range(3):
        np.testing.assert_allclose(
            solve_advection(speed([i]), initial, inflow, TIMES, POINTS)[0], together[i], atol=1e-13
        )
    assert (
        estimate_error(
            lambda n: solve_advection(speed(slice(None)), initial, inflow, TIMES, POINTS, resolution=n), 64
        ).maximum
        < 1e-10
    )


def test_a_speed_that_vanishes_is_refused():
    with pytest.raises(ValueError, match="must be positive"):
        solve_advection(lambda x: x[None] - 0.5, initial, inflow, TIMES, POINTS)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
