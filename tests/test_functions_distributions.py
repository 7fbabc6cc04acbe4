"""The distributions of the spaces of functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import BOX, CIRCLE, LINE, TORUS

from seponet.derivatives import multi_index
from seponet.domain import Domain, Periodic
from seponet.functions import Bumps, GaussianField, Positive, Scalar, SolenoidalField, SpectralField, Vector
from seponet.locations import Grid

KEY = jax.random.key(0)


def within(estimate: np.ndarray, exact: np.ndarray, deviation: np.ndarray) -> None:
    """No entry of an estimate is further than five standard errors from its expectation."""
    assert np.max(np.abs(np.asarray(estimate) - exact) / deviation) < 5


@pytest.mark.parametrize("space", [GaussianField(LINE, 0.3), GaussianField(BOX, (0.8, 0.5), variance=2.0)])
def test_gaussian_field_has_its_covariance(space: GaussianField) -> None:
    n = 20_000
    where = space.sensors(5).mesh()
    distance = sum(
        (np.subtract.outer(x, x) / scale) ** 2
        for x, scale in zip(map(np.asarray, where.points), space.length_scales, strict=True)
    )
    exact = space.variance * np.exp(-np.asarray(distance) / 2)
    u = np.asarray(space.sample(KEY, n)(where))
    spread = np.sqrt((space.variance**2 + exact**2) / n)
    within(u.T @ u / n, exact, spread)
    within(u.mean(axis=0), np.zeros(u.shape[1]), np.sqrt(space.variance / n))


@pytest.mark.parametrize("length_scale", [0.03, 0.2, 2.0])
def test_the_expansion_misses_next_to_nothing(length_scale: float) -> None:
    (basis,) = GaussianField(LINE, length_scale).bases
    x = np.linspace(0, 1, 60)
    f = basis.table(x, 1)
    kernel = np.exp(-(np.subtract.outer(x, x) ** 2) / (2 * length_scale**2))
    np.testing.assert_allclose((f[0] * basis.eigenvalues) @ f[0].T, kernel, atol=1e-8)
    slope = np.subtract.outer(x, x) / length_scale**2 * kernel
    np.testing.assert_allclose((f[0] * basis.eigenvalues) @ f[1].T, slope, atol=1e-6 / length_scale)


def test_burgers_input_has_its_spectrum() -> None:
    n = 4000
    space = SpectralField(CIRCLE, 625.0, 5.0, 4.0)
    u = np.asarray(space.sample(KEY, n)(space.sensors(256)))
    k = np.arange(1, 30)
    transform = 2 * np.fft.rfft(u, axis=1)[:, : len(k) + 1] / 256
    assert np.abs(transform[:, 0]).max() < 1e-14
    # u = sum_k sqrt(2) 625 ((2 pi k)^2 + 25)^-2 (xi_k cos + eta_k sin)
    variance = 2 * 625**2 * ((2 * np.pi * k) ** 2 + 25) ** -4.0
    within((transform[:, 1:].real ** 2).mean(axis=0) / variance, np.ones(len(k)), np.sqrt(2 / n))
    within((transform[:, 1:].imag ** 2).mean(axis=0) / variance, np.ones(len(k)), np.sqrt(2 / n))
    # By default no more than 1e-12 of the variance is missed.
    far = np.arange(1, 10_000)
    total = np.sum(2 * 625**2 * ((2 * np.pi * far) ** 2 + 25) ** -4.0)
    assert 1 - 1e-12 <= np.sum(space.deviations**2) / total <= 1 + 1e-14


def test_dirichlet_field_has_its_covariance_and_vanishes_at_the_ends() -> None:
    n = 4000
    space = SpectralField(Domain(x=(0.0, 2.0)), 3.0, 2.0, 3.0)
    grid = space.sensors(9)
    u = np.asarray(space.sample(KEY, n)(grid))
    assert np.abs(u[:, [0, -1]]).max() < 1e-13
    k = np.arange(1, 400)
    sines = np.sin(np.pi * np.multiply.outer(np.asarray(grid["x"][1:-1]), k) / 2)
    exact = (sines * 9 * ((np.pi * k / 2) ** 2 + 4) ** -3.0) @ sines.T
    variance = np.diag(exact)
    within(u[:, 1:-1].T @ u[:, 1:-1] / n, exact, np.sqrt((np.outer(variance, variance) + exact**2) / n))


def test_fields_in_two_dimensions_have_their_spectrum() -> None:
    n = 4000
    space = SpectralField(Domain(x=Periodic(0.0, 1.0), y=(0.0, 2.0)), 3.0, 2.0, 4.0, modes=6)
    values = np.asarray(space.sample(KEY, n)(space.sensors({"x": 16, "y": 33})))
    y = np.linspace(0, 2, 33)[1:-1]
    # Discrete sines are orthogonal: sum_i sin(j pi y_i / 2)^2 = 16.
    sines = np.sin(np.pi * np.multiply.outer(y, np.arange(1, 7)) / 2) / 16
    modes = np.fft.rfft(values[:, :, 1:-1], axis=1)[:, :7] @ sines / 16
    for i, j in [(0, 1), (1, 1), (3, 2), (6, 6)]:
        variance = 9 * ((2 * np.pi * i) ** 2 + (np.pi * j / 2) ** 2 + 4) ** -4.0
        # E|modes|^2: an orthonormal cosine or sine has the amplitude sqrt(2), half of it at the positive frequency.
        within(np.mean(np.abs(modes[:, i, j - 1]) ** 2) / variance, np.ones(()), np.sqrt(2 / n))
    torus = SpectralField(TORUS, 1.0, 1.0, 3.0)
    assert torus.deviations[0, 0] == 0
    assert torus.deviations[0, 1] == pytest.approx(2**-1.5)


def test_a_torus_keeps_the_ball_of_waves_that_carries_its_variance() -> None:
    kept = SpectralField(TORUS, 1.0, 1.0, 4.0).deviations
    everything = SpectralField(TORUS, 1.0, 1.0, 4.0, modes=64).deviations
    size = len(kept)
    assert kept.shape == (size, size)
    assert size < 64
    square = np.add.outer(*[((np.arange(size) + 1) // 2) ** 2] * 2)
    radius = np.max(square[kept > 0])
    np.testing.assert_array_equal(kept, np.where(square <= radius, everything[:size, :size], 0))
    missed = 1 - np.sum(kept**2) / np.sum(everything**2)
    shell = np.sum(kept[square == radius] ** 2) / np.sum(everything**2)
    assert missed <= 1e-8 < missed + shell


@pytest.mark.parametrize("axes", [2, 3])
def test_products_that_carry_next_to_nothing_are_not_drawn(axes: int) -> None:
    space = GaussianField(Domain(**dict.fromkeys("xyz"[:axes], (0.0, 1.0))), 0.2)
    drawn, varying = np.asarray(space.sample(KEY, 400).parameters), space.deviations > 0
    assert drawn.shape == (400, *space.deviations.shape)
    assert np.sum(varying) < 0.8 * varying.size
    assert np.all(drawn[:, ~varying] == 0)
    numbers = drawn[:, varying] / space.deviations[varying]
    within(np.mean(numbers**2, axis=0), np.ones(numbers.shape[1]), np.sqrt(2 / 400))
    # What the docstring says of the variances of the field and of its second derivative, in the middle of the axes.
    tables = [basis.table(np.linspace(0.1, 0.9, 17), 2) for basis in space.bases]
    for order, exact, tolerance in [(0, 1.0, 2e-7), (2, 3 / 0.2**4, 1e-6)]:
        variance = space.deviations**2
        for table, m in zip(tables, (order, 0, 0), strict=False):
            variance = np.tensordot(variance, table[m] ** 2, ((0,), (1,)))
        np.testing.assert_allclose(variance, exact, rtol=tolerance)


@pytest.mark.parametrize("space", [GaussianField(LINE, 0.2), SpectralField(CIRCLE, 625.0, 5.0, 4.0)])
def test_functions_of_one_axis_stay_those_of_published_test_sets(space: GaussianField | SpectralField) -> None:
    numbers = np.asarray(jax.random.normal(KEY, (5, space.deviations.size)))
    np.testing.assert_array_equal(space.sample(KEY, 5).parameters, np.asarray(space.deviations)[None] * numbers)


def test_positive_functions_have_their_minimum() -> None:
    space = Positive(GaussianField(LINE, 0.2), floor=0.5)
    u = np.asarray(space.sample(KEY, 50)(space.sensors(20_001))).min(axis=1)
    # The grid of the test is itself h^2/8 v'' = 3e-8 off at most.
    assert np.all(u > 0.5 - 1e-10)
    assert np.all(u < 0.5 + 5e-8)
    circle = Positive(SpectralField(CIRCLE, 625.0, 5.0, 4.0))
    u = np.asarray(circle.sample(KEY, 50)(circle.sensors(20_000))).min(axis=1)
    np.testing.assert_allclose(u, 1.0, atol=5e-8)
    box = Positive(GaussianField(BOX, 0.8))
    u = np.asarray(box.sample(KEY, 5)(box.sensors(400))).min(axis=(1, 2))
    np.testing.assert_allclose(u, 1.0, atol=2e-3)


def test_bumps_are_what_they_say() -> None:
    space = Bumps(Domain(x=(-1.0, 1.0), y=(-1.0, 1.0), z=(0.0, 1.0)), count=3)
    functions = space.sample(KEY, 200)
    p = {name: np.asarray(value) for name, value in functions.parameters.items()}
    for name, (low, high) in {"amplitude": (0.2, 0.5), "sharpness": (10.0, 20.0), "centre": (-0.5, 0.5)}.items():
        assert low <= p[name].min() < low + 0.02 * (high - low)
        assert high >= p[name].max() > high - 0.02 * (high - low)
    grid = space.sensors({"x": 3, "y": 2, "z": 4})
    offsets = (
        np.stack(np.meshgrid(*grid.points, indexing="ij"), axis=-1)[None, None] - p["centre"][:, :, None, None, None]
    )
    squares = np.sum(offsets**2, axis=-1)
    amplitude, sharpness = (p[name][:, :, None, None, None] for name in ("amplitude", "sharpness"))
    exact = np.sum(amplitude * np.exp(-sharpness * squares), axis=1)
    np.testing.assert_allclose(functions(grid), exact, rtol=1e-12)


def test_solenoidal_fields() -> None:
    n = 60
    space = SolenoidalField(TORUS)
    assert space.bases[0].size == 53
    functions = space.sample(KEY, n)
    grid = space.sensors(128)
    speed = np.sqrt(np.sum(np.asarray(functions(grid)) ** 2, axis=0)).max(axis=(1, 2))
    np.testing.assert_allclose(speed, 5.0, rtol=1e-12)
    finer = functions[:4](space.sensors(512))
    assert np.sqrt(np.sum(np.asarray(finer) ** 2, axis=0)).max() < 5 * (1 + 5e-3)
    divergence = functions(grid, multi_index(x=1))[0] + functions(grid, multi_index(y=1))[1]
    assert np.abs(divergence).max() < 1e-10
    # The velocity's amplitude times k is the log-normal density, whose mode is 3.
    along_x = space.deviations[1::2, 0] * np.arange(1, 27) ** 2
    k = np.arange(1, 27)
    density = np.exp(-((np.log(k) - np.log(3) - 0.25) ** 2) / (2 * 0.25)) / k
    np.testing.assert_allclose(along_x / along_x[2], density / density[2], rtol=1e-12)
    assert np.argmax(along_x) == 2
    # But for the scale of each field, the coefficients are independent normal numbers.
    normal = np.asarray(functions.parameters)[:, 1:, 1:] / space.deviations[1:, 1:]
    normal = normal / np.sqrt(np.mean(normal**2, axis=(1, 2), keepdims=True))
    shells = np.mean(normal**2, axis=(0, 2))
    within(shells, np.ones_like(shells), np.sqrt(2 / (n * shells.size)))


def test_scalars_and_vectors() -> None:
    n = 4000
    values = np.asarray(Scalar(1.0, 3.0).sample(KEY, n).parameters)
    within(values.mean(), np.asarray(2.0), np.asarray(2 / np.sqrt(12 * n)))
    assert 1 <= values.min() < 1.01 < 2.99 < values.max() <= 3
    logs = np.log10(Scalar(0.001, 0.1, log=True).sample(KEY, n).parameters)
    within(logs.mean(), np.asarray(-2.0), np.asarray(2 / np.sqrt(12 * n)))
    vector = Vector(np.array([0.0, 10.0, -1.0]), [1.0, 30.0, -1.0])
    grid = Grid(("t", "x"), (jnp.zeros(4), jnp.zeros(5)))
    batch = vector.sample(KEY, n)
    assert batch(grid).shape == (3, n, 1, 1)
    assert batch(grid.mesh()).shape == (3, n, 1)
    within(
        np.asarray(batch(grid)[:2, :, 0, 0].mean(axis=1)),
        np.array([0.5, 20.0]),
        np.array([1.0, 20.0]) / np.sqrt(12 * n),
    )
    assert np.all(batch(grid)[2] == -1)
