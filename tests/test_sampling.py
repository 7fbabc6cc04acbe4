"""Collocation points: where they fall, how they are weighted, and that adaptive ones follow the residual."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import AllenCahn, KdV

from seponet import Grid, nn
from seponet.calculus.evaluate import residuals
from seponet.training.sampling import Sampler

KEY = jax.random.key(0)


@pytest.mark.parametrize("method", ["uniform", "stratified", "gauss", "adaptive"])
def test_points_lie_in_the_domain_in_ascending_order(method):
    sampler = Sampler.of(KdV.domain, {"t": 6, "x": 40}, method)
    drawn = sampler.draw(KEY, sampler.density())
    assert drawn.where.shape == (6, 40)
    for name, axis in KdV.domain.axes:
        points = np.asarray(drawn.where[name])
        assert np.all(np.diff(points) > 0)
        assert points[0] >= axis.lower
        assert points[-1] <= axis.upper


def test_stratified_points_are_one_to_a_cell():
    sampler = Sampler.of(KdV.domain, 50, "stratified")
    x = np.asarray(sampler.draw(KEY, sampler.density()).where["x"])
    cells = np.floor((x + 1) / 2 * 50).astype(int)
    assert np.array_equal(cells, np.arange(50))


def test_uniform_points_fill_the_axis_evenly():
    sampler = Sampler.of(KdV.domain, 4000, "uniform")
    x = np.asarray(sampler.draw(KEY, sampler.density()).where["x"])
    counts = np.histogram(x, 10, (-1, 1))[0]
    assert np.all(np.abs(counts - 400) < 5 * np.sqrt(400))


def test_gauss_weights_integrate_polynomials_and_waves_exactly():
    sampler = Sampler.of(KdV.domain, 8, "gauss")
    drawn = sampler.draw(KEY, sampler.density())
    t, x = drawn.where["t"], drawn.where["x"]
    in_t, in_x = drawn.weights
    assert in_t is not None
    assert in_x is not None
    assert float(jnp.sum(in_t * t**15)) == pytest.approx(0.5**15 / 16, rel=1e-10)
    assert float(jnp.sum(in_x * jnp.cos(3 * jnp.pi * x) ** 2)) == pytest.approx(0.5, rel=1e-12)


def test_draws_follow_the_key_and_change_with_it():
    sampler = Sampler.of(KdV.domain, 16, "stratified")
    draw = eqx.filter_jit(lambda key: sampler.draw(key, sampler.density()).where["x"])
    assert np.array_equal(draw(KEY), draw(KEY))
    assert not np.array_equal(draw(KEY), draw(jax.random.key(1)))


def test_scattered_points_have_a_boundary_of_their_own():
    sampler = Sampler.of(KdV.domain, {"t": 4, "x": 9}, "uniform", scattered=True)
    drawn = sampler.draw(KEY, sampler.density())
    assert drawn.where.shape == (36,)
    assert drawn.boundary is not None
    assert drawn.boundary.shape == (9,)


def test_adaptive_points_gather_where_the_residual_is_large():
    problem = AllenCahn()
    model = nn.build(
        problem, rank=4, trunk_width=6, trunk_depth=1, branch_width=6, branch_depth=1, sensors=6, exact="all", key=KEY
    )
    sampler = Sampler.of(problem.domain, {"t": 16, "x": 16}, {"t": "stratified", "x": "adaptive"})
    inputs = problem.sample(KEY, 4)
    density = sampler.density()
    adapt, draw = eqx.filter_jit(sampler.adapt), eqx.filter_jit(sampler.draw)
    for i in range(20):
        density = adapt(density, model, inputs, draw(jax.random.key(i), density))
    assert density[0] is None
    assert density[1] is not None
    centres = (jnp.arange(16) + 0.5) / 16
    where = Grid.of(problem.domain, {"t": jnp.linspace(0, 1, 33), "x": centres})
    profile = np.mean(np.asarray(residuals(model, inputs, where)["equation"]) ** 2, axis=(0, 1))
    # Half of the density is even; the other half follows the mean square residual along x.
    expected = 0.5 + 0.5 * profile / profile.mean()
    np.testing.assert_allclose(density[1], expected, rtol=0.15)
    several = jax.vmap(lambda key: sampler.draw(key, density).where["x"])(jax.random.split(KEY, 200))
    drawn = np.asarray(several)
    found = np.histogram(drawn, 16, (0, 1))[0] / 200
    np.testing.assert_allclose(found, np.asarray(density[1]) / np.mean(density[1]), atol=0.15)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((8, "random"), "sampling along t must be one of uniform"),
        (({"t": 8}, "gauss"), "x is missing"),
        ((0, "gauss"), "at least one point"),
    ],
)
def test_wrong_settings_are_named(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        Sampler.of(KdV.domain, *arguments)


def test_scattered_points_must_be_uniform():
    with pytest.raises(ValueError, match="drawn uniformly"):
        Sampler.of(KdV.domain, 8, "gauss", scattered=True)
