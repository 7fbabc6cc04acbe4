"""Exponential time differencing: exact where it should be, of order four elsewhere."""

import runpy
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
solve_semilinear = runpy.run_path(str(BENCHMARKS / "zoo" / "_exponential.py"))["solve_semilinear"]

TIMES = np.array([0.0, 0.5, 0.75, 2.0])


def test_the_diagonal_is_treated_exactly_however_stiff():
    diagonal = np.array([-1e6, -1.0, 0.0, 0.5])
    found = solve_semilinear(diagonal, np.zeros_like, np.ones((3, 4)), TIMES, steps=4)
    np.testing.assert_allclose(
        found, np.broadcast_to(np.exp(np.outer(TIMES, diagonal))[:, None], (4, 3, 4)), atol=1e-14
    )


def test_a_rotation_keeps_its_length_exactly():
    found = solve_semilinear(np.array([40j]), np.zeros_like, np.ones((1, 1), complex), TIMES, steps=4)
    np.testing.assert_allclose(found[:, 0, 0], np.exp(40j * TIMES), atol=1e-12)


def test_the_logistic_equation_converges_with_order_four():
    start = np.array([[0.1], [0.4]])
    exact = start * np.exp(TIMES)[:, None, None] / (1 + start * (np.exp(TIMES)[:, None, None] - 1))

    def error(steps):
        found = solve_semilinear(np.ones(1), lambda c: -(c**2), start, TIMES, steps=steps)
        return np.abs(found - exact).max()

    assert np.log2(error(16) / error(32)) == pytest.approx(4, abs=0.3)
    assert error(256) < 1e-10


def test_a_forced_stiff_mode_follows_its_slow_solution():
    # c' = -L (c - cos) - sin from c(0) = 1 is cos, as a state with the clock as second mode: clock' = 1.
    stiff = 1e4

    def nonlinear(state):
        clock = state[..., 1]
        return np.stack([stiff * np.cos(clock) - np.sin(clock), np.ones_like(clock)], -1)

    found = solve_semilinear(np.array([-stiff, 0.0]), nonlinear, np.array([[1.0, 0.0]]), TIMES, steps=64)
    np.testing.assert_allclose(found[:, 0, 0], np.cos(TIMES), atol=1e-6)


def test_times_must_ascend():
    with pytest.raises(ValueError, match="increase strictly"):
        solve_semilinear(np.zeros(1), np.zeros_like, np.ones((1, 1)), TIMES[::-1], steps=4)
