"""Spaces of functions: their distributions, and what holds for all of them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet.domain import Domain, MultiIndex, Periodic, add, multi_index
from seponet.functions import (
    Bumps,
    Functions,
    GaussianField,
    Positive,
    Sampled,
    Scalar,
    SolenoidalField,
    Space,
    SpectralField,
    Vector,
)
from seponet.locations import Grid, Points

LINE = Domain(x=(0.0, 1.0))
CIRCLE = Domain(x=Periodic(0.0, 1.0))
BOX = Domain(x=(-1.0, 1.0), y=(0.0, 1.5))
TORUS = Domain(x=Periodic(0.0, 2 * np.pi), y=Periodic(0.0, 2 * np.pi))
KEY = jax.random.key(0)

_data = np.random.default_rng(0).normal(size=(2, 5, 8, 7))
SPACES: dict[str, Space] = {
    "gaussian": GaussianField(LINE, 0.3),
    "gaussian box": GaussianField(BOX, (0.8, 0.5), variance=2.0),
    "positive": Positive(GaussianField(LINE, 0.3)),
    "positive box": Positive(GaussianField(BOX, 0.8), resolution=17),
    "burgers": SpectralField(CIRCLE, 625.0, 5.0, 4.0, modes=12),
    "channel": SpectralField(Domain(x=Periodic(-1.0, 1.0), y=(0.0, 1.5)), 9.0, 3.0, 4.0, modes=(4, 6)),
    "bumps": Bumps(BOX),
    "bumps 3-D": Bumps(Domain(x=(-1.0, 1.0), y=(-1.0, 1.0), z=(-1.0, 1.0)), count=2),
    "solenoidal": SolenoidalField(Domain(x=Periodic(0.0, 2.0), y=Periodic(0.0, 3.0)), modes=5, resolution=32),
    "sampled": Sampled(Domain(x=Periodic(-1.0, 1.0), y=(0.0, 1.5)), _data),
    "scalar": Scalar(0.1, 1.0),
    "vector": Vector([0.0, 1.0], [1.0, 3.0]),
}
each_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())


@functools.cache
def drawn(space: Space) -> Functions:
    return space.sample(KEY, 3)


def interior(space: Space, sizes: tuple[int, ...] = (4, 3, 5)) -> dict[str, np.ndarray]:
    return {
        name: axis.lower + axis.length * np.linspace(0.13, 0.88, size)
        for (name, axis), size in zip(space.domain.axes, sizes, strict=False)
    }


def grid_of(space: Space, points: dict[str, np.ndarray]) -> Grid:
    return Grid.of(space.domain, {name: jnp.asarray(x) for name, x in points.items()})


def lead(space: Space, n: int = 3) -> tuple[int, ...]:
    return (n,) if space.components is None else (space.components, n)


def within(estimate: np.ndarray, exact: np.ndarray, deviation: np.ndarray) -> None:
    """No entry of an estimate is further than five standard errors from its expectation."""
    assert np.max(np.abs(np.asarray(estimate) - exact) / deviation) < 5


# What holds for every space.


@each_space
def test_sampling_is_deterministic_and_compiles(space: Space) -> None:
    where = grid_of(space, interior(space))
    alpha = multi_index(**dict.fromkeys(space.domain.names, 1))

    @jax.jit
    def run(key: jax.Array, where: Grid) -> jax.Array:
        return space.sample(key, 3)(where, alpha)

    compiled = run(KEY, where)
    assert compiled.shape == (*lead(space), *where.shape)
    eager = drawn(space)(where, alpha)
    np.testing.assert_allclose(compiled, eager, rtol=0, atol=1e-12 * np.abs(eager).max())
    assert np.array_equal(compiled, run(KEY, where))
    assert not np.allclose(compiled, run(jax.random.key(1), where))
    assert len({space, space}) == 1


@each_space
@pytest.mark.parametrize("order", [0, 3])
def test_grid_equals_points(space: Space, order: int) -> None:
    # On a larger domain whose axes come in another order.
    names = ("t", *reversed(space.domain.names))
    points = {"t": jnp.linspace(0.0, 1.0, 2)} | {k: jnp.asarray(v) for k, v in interior(space).items()}
    grid = Grid(names, tuple(points[name] for name in names))
    alpha = multi_index(**dict.fromkeys(space.domain.names[-1:], order))
    on_grid = drawn(space)(grid, alpha)
    assert on_grid.shape == (*lead(space), 1, *grid.shape[1:])
    full = np.broadcast_to(on_grid, (*lead(space), *grid.shape)).reshape(*lead(space), -1)
    at_points = np.broadcast_to(drawn(space)(grid.mesh(), alpha), full.shape)
    np.testing.assert_allclose(at_points, full, rtol=0, atol=1e-11 * np.abs(full).max())


@each_space
def test_derivatives_are_difference_quotients(space: Space) -> None:
    points, h = interior(space), 1e-5
    for name in space.domain.names:
        alphas: list[MultiIndex] = [(), multi_index(**{name: 1})]
        if len(space.domain) > 1:
            alphas.append(multi_index(**{space.domain.names[0]: 1, space.domain.names[1]: 2}))
        for alpha in alphas:
            ahead = drawn(space)(grid_of(space, points | {name: points[name] + h}), alpha)
            behind = drawn(space)(grid_of(space, points | {name: points[name] - h}), alpha)
            exact = drawn(space)(grid_of(space, points), add(alpha, multi_index(**{name: 1})))
            quotient = (np.asarray(ahead) - np.asarray(behind)) / (2 * h)
            np.testing.assert_allclose(quotient, exact, rtol=0, atol=2e-7 * np.abs(exact).max())


@each_space
def test_foreign_axes(space: Space) -> None:
    if len(space.domain):
        with pytest.raises(ValueError, match=r"need points along x.*; got t"):
            drawn(space)(Grid(("t",), (jnp.linspace(0.0, 1.0, 2),)))
    names = ("t", *space.domain.names)
    points = {"t": jnp.linspace(0.0, 1.0, 2)} | {k: jnp.asarray(v) for k, v in interior(space).items()}
    where = Grid(names, tuple(points[name] for name in names))
    zero = drawn(space)(where, multi_index(t=1))
    assert zero.shape == (*lead(space), 1, *where.shape[1:])
    assert np.all(zero == 0)


@each_space
def test_float32(space: Space) -> None:
    exact = drawn(space)(grid_of(space, interior(space)))
    parameters = jax.tree.map(np.asarray, drawn(space).parameters)
    with jax.enable_x64(False):
        where = grid_of(space, interior(space))
        assert jax.eval_shape(lambda: space.sample(KEY, 3)(where)).dtype == jnp.float32
        single = Functions(space, jax.tree.map(jnp.asarray, parameters))(where)
        assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, exact, rtol=0, atol=1e-5 * np.abs(exact).max())


def test_a_batch_is_indexed() -> None:
    space = SPACES["solenoidal"]
    functions = drawn(space)
    where = space.sensors(4)
    values = np.asarray(functions(where))
    assert len(functions) == 3
    for rows, chosen in [(slice(1, 3), values[:, 1:3]), (-1, values[:, 2:]), (np.array([2, 0]), values[:, [2, 0]])]:
        np.testing.assert_allclose(functions[rows](where), chosen, rtol=0, atol=1e-13)


def test_sensors() -> None:
    grid = SPACES["channel"].sensors({"x": 4, "y": 4})
    np.testing.assert_allclose(grid["x"], [-1.0, -0.5, 0.0, 0.5])
    np.testing.assert_allclose(grid["y"], [0.0, 0.5, 1.0, 1.5])
    assert Scalar(0.0, 1.0).sensors(7).shape == ()
    with pytest.raises(ValueError, match="axis 'y' needs a number of sensors of at least 2; got None"):
        SPACES["channel"].sensors({"x": 4})


# Distributions.


@pytest.mark.parametrize("space", [SPACES["gaussian"], SPACES["gaussian box"]], ids=["line", "box"])
def test_gaussian_field_has_its_covariance(space: GaussianField) -> None:
    n = 20_000
    where = grid_of(space, interior(space, (6, 3))).mesh()
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
    assert np.all(torus.deviations.reshape(-1)[1:] > 0)


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
    space = Bumps(BOX, count=3)
    functions = space.sample(KEY, 200)
    p = {name: np.asarray(value) for name, value in functions.parameters.items()}
    for name, (low, high) in {"amplitude": (0.2, 0.5), "sharpness": (10.0, 20.0), "centre": (-0.5, 0.5)}.items():
        assert low <= p[name].min() < low + 0.02 * (high - low)
        assert high >= p[name].max() > high - 0.02 * (high - low)
    x, y = 0.1, 0.4
    squares = (x - p["centre"][:, :, 0]) ** 2 + (y - p["centre"][:, :, 1]) ** 2
    exact = np.sum(p["amplitude"] * np.exp(-p["sharpness"] * squares), axis=1)
    where = Points(("x", "y"), (jnp.array([x]), jnp.array([y])))
    np.testing.assert_allclose(functions(where)[:, 0], exact, rtol=1e-13)


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
    within(batch(grid)[:2, :, 0, 0].mean(axis=1), np.array([0.5, 20.0]), np.array([1.0, 20.0]) / np.sqrt(12 * n))
    assert np.all(batch(grid)[2] == -1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianField(CIRCLE, 0.2), r"intervals; got \['x'\]. Use SpectralField"),
        (lambda: GaussianField(Domain(), 0.2), "intervals; got none"),
        (lambda: GaussianField(BOX, (0.2, 0.1, 0.1)), "one number or 2 of them"),
        (lambda: GaussianField(LINE, 0.0), "length_scale must be positive"),
        (lambda: GaussianField(LINE, 0.2, variance=-1.0), "variance must be positive; got -1.0"),
        (lambda: SpectralField(Domain(), 1.0, 1.0, 4.0), "at least one axis"),
        (lambda: SpectralField(LINE, 0.0, 1.0, 4.0), "sigma must be positive"),
        (lambda: SpectralField(BOX, 1.0, 1.0, 1.0), r"infinite variance in 2 dimensions: use gamma > 1.0, or give"),
        (lambda: SpectralField(BOX, 1.0, 1.0, 4.0, modes=(1, 2, 3)), "one number or 2 of them"),
        (lambda: SpectralField(LINE, 1.0, 1.0, 4.0, modes=0), "at least 1; got 0"),
        (lambda: Bumps(Domain()), "at least one axis and one bump; got 0 axes"),
        (lambda: Bumps(LINE, sharpness=(2.0, 1.0)), r"sharpness must be a range \(low, high\); got \(2.0, 1.0\)"),
        (lambda: SolenoidalField(BOX), "two periodic axes"),
        (lambda: SolenoidalField(TORUS, peak=-3.0), "must be positive; got max_speed=5.0, peak=-3.0"),
        (lambda: Positive(SolenoidalField(TORUS)), "scalar functions of at least one axis"),
        (lambda: Scalar(2.0, 1.0), r"low <= high; got \(2.0, 1.0\)"),
        (lambda: Scalar(0.0, 1.0, log=True), "0 < low; got low=0.0"),
        (lambda: Vector([0.0], [1.0, 2.0]), "the same length; got 1 and 2"),
        (lambda: Vector([0.0, np.nan], [1.0, 2.0]), "finite bounds"),
    ],
)
def test_mistakes(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_functions_are_a_pytree_with_a_static_space() -> None:
    functions = SPACES["gaussian"].sample(KEY, 3)
    leaves, tree = jax.tree.flatten(functions)
    assert [leaf.shape[0] for leaf in leaves] == [3]
    assert isinstance(jax.tree.unflatten(tree, leaves), Functions)
