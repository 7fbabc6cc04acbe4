import numpy as np
import pytest

from seponet.reference import (
    relative_l2,
    solve_advection,
    solve_burgers,
    solve_diffusion_reaction,
    solve_heat,
    solve_nonlinear_diffusion,
)
from seponet.reference.paper_schemes import (
    adams_nonlinear_diffusion,
    box_advection,
    coarse_burgers,
    crank_nicolson_reaction,
    euler_heat,
)


def observed(error, sizes):
    errors = np.array([error(n) for n in sizes])
    return np.log2(errors[:-1] / errors[1:])


def test_box_scheme_is_second_order_for_smooth_data():
    """Data without a kink: s = sin(log(1 + x) - t) for u = 1 + x."""

    def error(n):
        grid = np.linspace(0, 1, n + 1)
        s = box_advection(lambda x: 1 + x[None], lambda x: np.sin(np.log1p(x)), lambda t: -np.sin(t), grid, grid)
        return relative_l2(s, np.sin(np.log1p(grid) - grid[:, None])[None]).max()

    assert np.abs(observed(error, (16, 32, 64)) - 2).max() < 0.2


def test_box_scheme_suffers_from_the_kink():
    """With the paper's data on 128^2 points it is some tenths of a percent off the exact solution."""
    grid = np.linspace(0, 1, 128)
    arguments = (
        lambda x: (2 - np.cos(5 * x))[None],
        lambda x: np.sin(np.pi * x),
        lambda t: np.sin(np.pi / 2 * t),
        grid,
        grid,
    )
    assert 1e-3 < relative_l2(box_advection(*arguments), solve_advection(*arguments)).max() < 2e-2


def test_linearised_crank_nicolson_is_second_order():
    def reaction(s, u):
        return s**2 + u

    def error(n):
        grid = np.linspace(0, 1, n + 1)
        s = crank_nicolson_reaction(reaction, 0.05, grid, grid, u=lambda x: np.sin(np.pi * x)[None])
        exact = solve_diffusion_reaction(
            reaction, 0.05, grid, grid, u=lambda x: np.sin(np.pi * x)[None], resolution=128
        )
        return relative_l2(s, exact).max()

    assert np.abs(observed(error, (16, 32, 64)) - 2).max() < 0.2


def test_forward_euler_is_second_order_in_the_spacing():
    def error(n):
        times, points = np.linspace(0, 1, 5), np.linspace(0, 1, n + 1)
        initial = lambda x: np.sin(2 * np.pi * x)[None]  # noqa: E731
        return relative_l2(euler_heat(initial, times, points), solve_heat(initial, times, points)).max()

    assert np.abs(observed(error, (16, 32, 64)) - 2).max() < 0.2


def test_adams_is_second_order_in_the_spacing():
    def initial(x, y):
        return 0.5 + 0.3 * (np.cos(np.pi / 2 * x[:, None]) * np.cos(np.pi / 2 * y))[None]

    times, points = np.linspace(0, 1, 5), np.linspace(-1, 1, 9)
    exact = solve_nonlinear_diffusion(initial, 0.05, times, (points, points), resolution=64)

    def error(n):
        points = np.linspace(-1, 1, n + 1)
        return relative_l2(
            adams_nonlinear_diffusion(initial, 0.05, times, (points, points))[..., :: n // 8, :: n // 8], exact
        ).max()

    assert np.abs(observed(error, (8, 16, 32)) - 2).max() < 0.2


def test_coarse_burgers_is_coarse_but_close():
    initial = lambda x: np.sin(2 * np.pi * x)[None] / 2  # noqa: E731
    grid = np.linspace(0, 1, 41)
    exact = solve_burgers(initial, 0.01, grid, grid)
    assert 1e-7 < relative_l2(coarse_burgers(initial, 0.01, grid, grid), exact).max() < 1e-2


def test_uneven_points_are_refused():
    with pytest.raises(ValueError, match="equispaced"):
        euler_heat(lambda x: x[None], np.linspace(0, 1, 3), np.array([0.0, 0.1, 1.0]))
