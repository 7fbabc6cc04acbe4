"""What holds for every space of functions."""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import BOX, CIRCLE, LINE, TORUS

from seponet.derivatives import MultiIndex, compose, multi_index
from seponet.domain import Domain, Periodic
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
from seponet.locations import Grid

KEY = jax.random.key(0)

_data = np.random.default_rng(0).normal(size=(5, 2, 8, 7))
SPACES: dict[str, Space] = {
    "gaussian": GaussianField(LINE, 0.3),
    "gaussian box": GaussianField(BOX, (0.8, 0.5), variance=2.0),
    "positive": Positive(GaussianField(LINE, 0.3)),
    "burgers": SpectralField(CIRCLE, 625.0, 5.0, 4.0, modes=12),
    "channel": SpectralField(Domain(x=Periodic(-1.0, 1.0), y=(0.0, 1.5)), 9.0, 3.0, 4.0, modes=(4, 6)),
    "bumps": Bumps(BOX),
    "solenoidal": SolenoidalField(Domain(x=Periodic(0.0, 2.0), y=Periodic(0.0, 3.0)), modes=5, resolution=32),
    "sampled": Sampled(Domain(x=Periodic(-1.0, 1.0), y=(0.0, 1.5)), _data),
    "scalar": Scalar(0.1, 1.0),
    "vector": Vector([0.0, 1.0], [1.0, 3.0]),
}
each_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())


@functools.cache
def sampler(space: Space) -> Callable[[jax.Array], Functions]:
    return jax.jit(lambda key: space.sample(key, 3))


@functools.cache
def drawn(space: Space) -> Functions:
    return sampler(space)(KEY)


def interior(space: Space, sizes: tuple[int, ...] = (4, 3, 5)) -> dict[str, np.ndarray]:
    return {
        name: axis.lower + axis.length * np.linspace(0.13, 0.88, size)
        for (name, axis), size in zip(space.domain.axes, sizes, strict=False)
    }


def grid_of(space: Space, points: dict[str, np.ndarray]) -> Grid:
    return Grid.of(space.domain, {name: jnp.asarray(x) for name, x in points.items()})


def lead(space: Space, n: int = 3) -> tuple[int, ...]:
    return (n,) if space.components is None else (space.components, n)


@each_space
def test_sampling_is_deterministic_and_compiles(space: Space) -> None:
    where = grid_of(space, interior(space))
    alpha = multi_index(**dict.fromkeys(space.domain.names, 1))

    functions = drawn(space)
    compiled = jax.jit(lambda functions, where: functions(where, alpha))(functions, where)
    assert compiled.shape == (*lead(space), *where.shape)
    known = functions(where, alpha)
    np.testing.assert_allclose(compiled, known, rtol=0, atol=1e-12 * np.abs(known).max())
    assert eqx.tree_equal(functions, sampler(space)(KEY))
    assert not eqx.tree_equal(functions, sampler(space)(jax.random.key(1)))
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
    names, points, h = space.domain.names, interior(space), 1e-5
    lower: list[MultiIndex] = [(), multi_index(**dict.fromkeys(names[:1], 1)), multi_index(**dict.fromkeys(names, 2))]
    needed = {*lower, *(compose(alpha, multi_index(**{name: 1})) for alpha in lower for name in names)}
    functions = drawn(space)
    derivatives = jax.jit(lambda where: {alpha: functions(where, alpha) for alpha in sorted(needed)})
    exact = derivatives(grid_of(space, points))
    for name in names:
        ahead = derivatives(grid_of(space, points | {name: points[name] + h}))
        behind = derivatives(grid_of(space, points | {name: points[name] - h}))
        for alpha in lower:
            quotient = (np.asarray(ahead[alpha]) - np.asarray(behind[alpha])) / (2 * h)
            derivative = exact[compose(alpha, multi_index(**{name: 1}))]
            np.testing.assert_allclose(quotient, derivative, rtol=0, atol=2e-7 * np.abs(derivative).max())


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
    arrays = [np.array([2, 0]), np.array([-1, 1, 1]), np.array([True, False, True])]
    for rows, chosen in [(slice(1, 3), values[:, 1:3]), (-1, values[:, 2:]), *((a, values[:, a]) for a in arrays)]:
        np.testing.assert_allclose(functions[rows](where), chosen, rtol=0, atol=1e-13)
    assert len(list(functions)) == len(functions)  # iteration comes to an end
    with pytest.raises(IndexError, match=f"there are {len(functions)} functions"):
        functions[len(functions)]
    with pytest.raises(IndexError, match="index 3 is out of bounds"):  # JAX would take the last one
        functions[np.array([0, 3])]


def test_sensors() -> None:
    grid = SPACES["channel"].sensors({"x": 4, "y": 4})
    np.testing.assert_allclose(grid["x"], [-1.0, -0.5, 0.0, 0.5])
    np.testing.assert_allclose(grid["y"], [0.0, 0.5, 1.0, 1.5])
    assert Scalar(0.0, 1.0).sensors(7).shape == ()
    with pytest.raises(ValueError, match="axis 'y' needs a number of sensors of at least 2; got None"):
        SPACES["channel"].sensors({"x": 4})


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
