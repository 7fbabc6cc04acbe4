"""User data as functions."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet.derivatives import multi_index
from seponet.domain import Domain, Periodic
from seponet.functions import Sampled
from seponet.locations import Grid, Points

LINE = Domain(x=(0.0, 2.0))
CIRCLE = Domain(x=Periodic(0.0, 2.0))
FINE = Grid(("x",), (jnp.linspace(0.0, 2.0, 801),))


def wave(x: np.ndarray, m: int = 0) -> np.ndarray:
    return 4.0**m * np.sin(4 * x + 0.3 + m * np.pi / 2)


@pytest.mark.parametrize("uniform", [True, False])
def test_splines_converge_at_their_order(uniform: bool) -> None:
    def errors(n: int) -> np.ndarray:
        place = np.linspace(0, 1, n)
        points = 2 * (place if uniform else place + 0.1 * np.sin(np.pi * place) * np.cos(5 * place))
        space = Sampled(LINE, wave(points)[None], {"x": points})
        x = np.asarray(FINE["x"])
        return np.array([np.abs(space.functions()(FINE, multi_index(x=m))[0] - wave(x, m)).max() for m in range(5)])

    coarse, fine = errors(41), errors(81)
    assert fine[0] < 1e-7
    # The m-th derivative of a quintic spline converges as h^(6 - m), up to a preasymptotic slack.
    assert np.all(np.log2(coarse / fine) > 6 - np.arange(5) - 0.5)


def test_few_points_make_a_cubic() -> None:
    x = np.linspace(0, 2, 4)
    space = Sampled(LINE, (x**3 - x)[None])
    fine = np.asarray(FINE["x"])
    np.testing.assert_allclose(space.functions()(FINE)[0], fine**3 - fine, atol=1e-13)
    np.testing.assert_allclose(space.functions()(FINE, multi_index(x=2))[0], 6 * fine, atol=1e-11)


def test_splines_interpolate_and_continue_outside() -> None:
    x = np.sort(np.random.default_rng(1).uniform(0, 2, 20))
    x[0], x[-1] = 0.0, 2.0
    data = np.random.default_rng(0).normal(size=(3, 20))
    functions = Sampled(LINE, data, {"x": x}).functions()
    np.testing.assert_allclose(functions(Points(("x",), (jnp.asarray(x),))), data, atol=1e-10)
    ahead, at = functions(Grid(("x",), (jnp.array([2.0 + 1e-9, 2.0]),))).T
    np.testing.assert_allclose(ahead, at, atol=1e-5)


@pytest.mark.parametrize("n", [16, 17])
@pytest.mark.parametrize("start", [0.0, 0.07])
@pytest.mark.parametrize("closed", [True, False])
def test_circles_are_exact_for_low_harmonics(n: int, start: float, closed: bool) -> None:
    def u(x: np.ndarray, m: int = 0) -> np.ndarray:
        waves = [(np.pi * k) ** m * np.cos(np.pi * k * x + k + m * np.pi / 2) for k in (1, 3, 7)]
        return np.sum(waves, axis=0) + (1.0 if m == 0 else 0.0)

    points = start + 2 * np.arange(n + closed) / n
    functions = Sampled(CIRCLE, u(points)[None], {"x": points}).functions()
    for m in range(4):
        exact = u(np.asarray(FINE["x"]), m)
        np.testing.assert_allclose(functions(FINE, multi_index(x=m))[0], exact, atol=1e-12 * np.abs(exact).max())


def test_a_channel_with_components() -> None:
    domain = Domain(x=Periodic(0.0, 2.0), y=(0.0, 1.0))
    x, y = 2 * np.arange(24) / 24, np.linspace(0, 1, 60)

    def u(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        wave = np.sin(np.pi * x)[:, None]
        return np.stack([[wave * np.exp(y), wave * y], [wave**2 * y, wave * np.cos(y)], [wave + y, 1 + 0 * wave * y]])

    space = Sampled(domain, np.swapaxes(u(x, y), 0, 1))
    assert space.components == 3
    assert len(space.functions()) == 2
    functions = space.functions()
    grid = Grid(("y", "x"), (jnp.linspace(0.0, 1.0, 5), jnp.linspace(0.0, 2.0, 7)))
    exact = np.swapaxes(u(np.asarray(grid["x"]), np.asarray(grid["y"])), 2, 3)
    np.testing.assert_allclose(functions(grid), exact, atol=1e-11)
    np.testing.assert_allclose(functions(grid.mesh()), exact.reshape(3, 2, -1), atol=1e-11)
    u_xy = np.pi * np.cos(np.pi * np.asarray(grid["x"])) * np.exp(np.asarray(grid["y"]))[:, None]
    np.testing.assert_allclose(functions(grid, multi_index(x=1, y=1))[0, 0], u_xy, atol=1e-8)


@pytest.mark.parametrize("draw", ["auto", "given"])
def test_samples_of_few_functions_are_given_ones(draw: Any) -> None:
    values = np.arange(7.0)[:, None] + np.linspace(0, 1, 9)
    space = Sampled(LINE, values, draw=draw)
    drawn = jax.jit(lambda key: space.sample(key, 500)(space.sensors(9)))(jax.random.key(0))
    rows = np.rint(np.asarray(drawn)[:, 0]).astype(int)
    np.testing.assert_allclose(drawn, values[rows], atol=1e-12)
    counts = np.bincount(rows, minlength=7)
    assert np.all(np.abs(counts - 500 / 7) < 5 * np.sqrt(500 / 7))
    assert space != Sampled(LINE, values)


def test_samples_of_many_functions_are_like_them() -> None:
    """New functions with the mean and the covariance of the given ones, and none of these among them."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 2, 17)
    waves = np.stack([np.sin(np.pi * k * x / 2 + 0.3) / k**2 for k in (1, 2, 3)])
    values = 0.5 * x + rng.normal(size=(300, 3)) @ waves
    space = Sampled(LINE, values)
    drawn = np.asarray(space.sample(jax.random.key(0), 20_000)(space.sensors(17)))
    assert np.allclose(drawn.mean(0), values.mean(0), atol=0.03)
    assert np.allclose(np.cov(drawn.T), np.cov(values.T), atol=0.05)
    distance = np.min(np.linalg.norm(drawn[:50, None] - values[None], axis=2), axis=1)
    assert np.mean(distance) > 1e-2
    # They stay in the space of the given ones.
    left = drawn - values.mean(0)
    basis = np.linalg.qr(waves.T)[0]
    assert np.abs(left - left @ basis @ basis.T).max() < 1e-8


def test_what_is_not_normal_is_told(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(0)
    x = np.linspace(0, 2, 9)
    wave = 1 + 0.1 * np.sin(x)
    with caplog.at_level("WARNING", "seponet"):
        positive = Sampled(LINE, rng.uniform(0.01, 3, size=(100, 1)) * wave)
        drawn = np.asarray(positive.sample(jax.random.key(0), 500)(positive.sensors(9)))
    assert "the 100 given functions are all positive" in caplog.text
    assert drawn.min() > 0
    caplog.clear()
    two = np.where(rng.uniform(size=(400, 1)) < 0.5, -1.0, 1.0) * (1 + 0.01 * rng.normal(size=(400, 1))) * wave
    with caplog.at_level("WARNING", "seponet"):
        halves = Sampled(LINE, two)
        drawn = np.asarray(halves.sample(jax.random.key(0), 2000)(halves.sensors(9)))[:, 0]
    assert "are not normal (component 1, with 100% of the variance" in caplog.text
    # Half of them are near one of the two given kinds, and of the others few.
    near = np.mean(np.abs(np.abs(drawn) - 1) < 0.05)
    assert 0.45 < near < 0.65


def _with(values: np.ndarray, place: tuple[int, ...], value: float) -> np.ndarray:
    values = values.copy()
    values[place] = value
    return values


X = np.linspace(0, 2, 9)
U = np.sin(X)[None]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((LINE, _with(U, (0, 3), np.nan)), r"finite; got nan at index \(0, 3\)"),
        ((LINE, _with(U, (0, 8), -np.inf)), r"finite; got -inf at index \(0, 8\)"),
        ((LINE, X), r"values must be \[functions, x\].* got the shape \(9,\)"),
        ((LINE, U[None, None]), r"with components after the functions if any; got the shape \(1, 1, 1, 9\)"),
        ((LINE, U[:0]), r"got the shape \(0, 9\)"),
        ((Domain(), U), r"got the shape \(1, 9\)"),
        ((LINE, U, {"x": X[:-1]}), r"9 points along 'x'; got coordinates of shape \(8,\)"),
        ((LINE, U, {"y": X}), "coordinates are for the axes x; got y"),
        ((LINE, U, {"x": X[::-1]}), "'x' must be finite and increasing; sort"),
        ((LINE, U, {"x": _with(X, (3,), X[4])}), "finite and increasing"),
        ((LINE, U, {"x": _with(X, (8,), np.nan)}), "finite and increasing"),
        ((LINE, U[:, :3]), "at least 4 points; got 3"),
        ((LINE, U, {"x": 0.9 * X}), r"cover the axis from 0.0 to 2.0; got 0.0 to 1.8"),
        ((LINE, U, {"x": X + 1e-5}), "cover the axis"),
        ((CIRCLE, U, {"x": X}), r"the same; got values that differ there by 0.909"),
        ((CIRCLE, U[:, :2]), "at least 3 distinct points; got 2"),
        ((CIRCLE, U, {"x": X**2 / 2.5}), r"uniform and go once round, with the spacing 0.222222; resample"),
        ((CIRCLE, U, {"x": X / 2}), "uniform and go once round"),
    ],
)
def test_mistakes(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampled(*arguments)


def test_coordinates_may_be_rounded() -> None:
    # Single-precision coordinates are within the tolerance.
    points = np.linspace(0, 2, 33, dtype=np.float32) * np.float32(1 + 1e-7)
    Sampled(LINE, np.sin(points)[None].astype(np.float64), {"x": points})


def test_far_more_components_than_functions_are_remarked_on() -> None:
    with pytest.warns(UserWarning, match="read as 2 functions with 5 components each; .* swap the first two axes"):
        Sampled(LINE, np.zeros((2, 5, 9)))
