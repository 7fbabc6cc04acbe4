import numpy as np

from seponet.reference import estimate_error, evaluate_sine_series, relative_l2, sine_coefficients, solve_heat

TIMES = np.array([0.0, 0.1, 0.5, 1.0])
POINTS = np.linspace(0, 1, 41)


def modes(x):
    return np.stack([np.sin(np.pi * x), 0.3 * np.sin(5 * np.pi * x) - np.sin(2 * np.pi * x)])


def test_modes_decay_at_their_rates():
    t = TIMES[:, None]
    exact = np.stack(
        [
            np.exp(-t) * np.sin(np.pi * POINTS),
            0.3 * np.exp(-25 * t) * np.sin(5 * np.pi * POINTS) - np.exp(-4 * t) * np.sin(2 * np.pi * POINTS),
        ]
    )
    np.testing.assert_allclose(solve_heat(modes, TIMES, POINTS, resolution=8), exact, atol=1e-13)


def test_other_interval_and_diffusivity():
    s = solve_heat(
        lambda x: np.sin(np.pi * (x + 1) / 3)[None], TIMES, 3 * POINTS - 1, diffusivity=0.2, interval=(-1.0, 2.0)
    )
    exact = np.exp(-0.2 * (np.pi / 3) ** 2 * TIMES[:, None]) * np.sin(np.pi * POINTS)
    np.testing.assert_allclose(s[0], exact, atol=1e-12)


def test_coefficients_of_a_parabola():
    """x (1 - x) has A_k = 8 / (k pi)^3 for odd k, 0 for even."""
    k = np.arange(1, 13)
    coefficients = sine_coefficients(lambda x: (x * (1 - x))[None], 12)
    np.testing.assert_allclose(coefficients[0], np.where(k % 2, 8 / (k * np.pi) ** 3, 0), atol=1e-14)


def test_truncation_error_is_the_energy_left_out():
    """Parseval at t = 0: the rank-r series misses exactly the modes beyond r, and the error falls with r."""
    a = np.random.default_rng(0).standard_normal((2, 20)) / np.arange(1, 21) ** 2
    nodes = (np.arange(256) + 0.5) / 256
    full = evaluate_sine_series(a, np.zeros(1), nodes)
    for rank in (1, 5, 19):
        error = relative_l2(evaluate_sine_series(a, np.zeros(1), nodes, rank=rank), full)
        np.testing.assert_allclose(error**2, (a[:, rank:] ** 2).sum(1) / (a**2).sum(1), rtol=1e-10)


def test_batch_equals_single_and_refinement():
    together = solve_heat(modes, TIMES, POINTS)
    for i in range(2):
        np.testing.assert_allclose(
            solve_heat(lambda x, i=i: modes(x)[i : i + 1], TIMES, POINTS)[0], together[i], atol=1e-14
        )
    assert estimate_error(lambda n: solve_heat(modes, TIMES, POINTS, resolution=n), 8).maximum < 1e-12
    # With too few modes the second function loses a third of itself, and the estimate must say so.
    estimate = estimate_error(lambda n: solve_heat(modes, TIMES, POINTS, resolution=n), 4)
    assert estimate.per_function[0] < 1e-12 < 0.1 < estimate.per_function[1] == estimate.maximum
