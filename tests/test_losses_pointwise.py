"""The loss in slabs is the loss, so is its gradient, and its memory does not grow with the number of rows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import QUICK, AllenCahn, Brusselator, KdV, Plate, Reactor, quick_jit, random_grid, small

from seponet.bases.quadrature import quadrature
from seponet.calculus.assembly import Assembly
from seponet.calculus.collocation import Collocation
from seponet.calculus.evaluate import residuals
from seponet.calculus.slabs import slab_sizes, sum_over_slabs
from seponet.locations import Grid
from seponet.losses.pointwise import lift_losses, physics_loss
from seponet.problems import NonlinearDiffusion


def gauss_grid(problem, sizes=(5, 7)):
    """A grid with quadrature weights that sum to one."""
    rules = [quadrature(axis, n) for n, (_, axis) in zip(sizes, problem.domain.axes, strict=True)]
    points = {name: jnp.asarray(rule[0]) for name, rule in zip(problem.domain, rules, strict=True)}
    return Collocation(Grid.of(problem.domain, points), tuple(jnp.asarray(w / w.sum()) for _, w in rules))


def scattered(problem):
    """15 points with weights of their own, and other points on the faces."""
    weights = jnp.asarray(np.random.default_rng(0).uniform(0.5, 1.5, 15))
    return Collocation(
        random_grid(problem, (5, 3)).mesh(), (weights / weights.sum(),), random_grid(problem, (4, 3)).mesh()
    )


def mixed(problem):
    """A grid with weights along one axis only, and another grid for the faces."""
    weights = jnp.asarray([0.1, 0.2, 0.3, 0.4])
    return Collocation(random_grid(problem, (5, 4)), (None, weights), random_grid(problem, (3, 4)))


def setup(problem, collocation, **config):
    model = small(problem, **config)
    functions = 3 if problem.inputs else 1
    weights = np.random.default_rng(1).uniform(0.5, 2.0, (len(problem.terms(model.exact)), functions))
    return model, problem.sample(jax.random.key(0), 3), collocation(problem), jnp.asarray(weights)


def mean_square(residual, weights):
    """Over all axes but the first; a missing weight is uniform, and a face has one point along its axis."""
    squares = residual**2
    for w in weights:
        if squares.shape[1] == 1 or w is None:
            squares = jnp.mean(squares, axis=1)
        else:
            squares = jnp.tensordot(squares, w, ((1,), (0,)))
    return squares


def direct(model, inputs, collocation, weights):
    """The loss as it is defined: all residuals at once, squared, averaged, summed."""
    found = residuals(model, inputs, collocation.where, collocation.boundary)
    own_boundary = collocation.boundary is not None or len(collocation.weights) == 1
    table = jnp.stack(
        [
            mean_square(r, (None,) * len(collocation.weights) if own_boundary and term.face else collocation.weights)
            for term, r in zip(model.problem.terms(model.exact), found.values(), strict=True)
        ]
    )
    return jnp.sum(weights * table), table


def value_table_gradient(loss, model):
    arrays, static = eqx.partition(model, eqx.is_inexact_array)

    def total(arrays):
        made = loss(eqx.combine(arrays, static))
        return made if isinstance(made, tuple) else (made.total, made.table)

    (value, table), gradient = jax.value_and_grad(total, has_aux=True)(arrays)
    return value, table, gradient


@pytest.mark.parametrize(
    ("kind", "collocation", "config", "slabs"),
    [
        (Reactor, gauss_grid, {"exact": ("t",)}, (None, 14, 3)),
        (Brusselator, scattered, {"decoder": "tucker"}, (4,)),
        (AllenCahn, mixed, {"decoder": "tucker", "trunk": "classical", "exact": "all"}, (12, 36, 2)),
        (AllenCahn, mixed, {"kind": "deeponet", "exact": ("t",)}, (8, 3)),
        (KdV, gauss_grid, {"kind": "deeponet_repeated"}, (14, 4)),
        (Plate, gauss_grid, {}, (28, 1)),
    ],
)
def test_value_and_gradient_in_slabs_are_those_of_the_definition(kind, collocation, config, slabs):
    model, inputs, collocation, weights = setup(kind(), collocation, **config)

    @quick_jit
    def run(model, inputs, collocation, weights):
        expected = value_table_gradient(lambda m: direct(m, inputs, collocation, weights), model)
        return expected, [
            value_table_gradient(lambda m, n=n: physics_loss(m, inputs, collocation, weights, slab=n), model)
            for n in slabs
        ]

    expected, found = run(model, inputs, collocation, weights)
    largest = max(float(jnp.abs(g).max()) for g in jax.tree.leaves(expected[2]))
    assert largest > 1e-3
    for value, table, gradient in found:
        np.testing.assert_allclose(value, expected[0], rtol=1e-12)
        np.testing.assert_allclose(table, expected[1], rtol=1e-11)
        for g, e in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected[2]), strict=True):
            np.testing.assert_allclose(g, e, rtol=0, atol=1e-12 * largest)


@pytest.mark.parametrize(("kind", "exact"), [(Brusselator, "all"), (Reactor, ("t",)), (Brusselator, "none")])
def test_the_losses_of_the_lift_are_those_of_a_network_that_is_zero(kind, exact):
    model, inputs, collocation, weights = setup(kind(), gauss_grid, exact=exact, zero_last=True)
    run = quick_jit(
        lambda m: (physics_loss(m, inputs, collocation, weights).table, lift_losses(m, inputs, collocation, 3))
    )
    zero, lift = run(model)
    assert float(lift.max()) > 1e-3
    np.testing.assert_allclose(lift, zero, rtol=1e-12, atol=1e-25)


def test_the_weights_of_locations_sum_to_one():
    for collocation in (gauss_grid, scattered, mixed):
        model, inputs, where, _ = setup(AllenCahn(), collocation)
        for piece in Assembly(model, inputs, where, 3, network=False).pieces:
            volume = jnp.broadcast_to(piece.volume(), piece.shape)
            assert float(volume.sum()) == pytest.approx(1.0, rel=1e-14)


def test_a_sum_over_slabs_needs_basis_functions():
    model, inputs, where, weights = setup(AllenCahn(), gauss_grid)
    pieces = Assembly(model, inputs, where, 3, network=False).pieces[:1]
    with pytest.raises(ValueError, match="made without the network"):
        sum_over_slabs(pieces, jnp.zeros((3, 1, 3)), weights[:1])


@pytest.mark.parametrize(
    ("shape", "points", "sizes"),
    [
        ((128, 128), 5243, (32, 128)),  # 40 rows would fit; four slabs of 32 need no padding
        ((64, 64, 64), 4096, (1, 64, 64)),
        ((128, 128, 128), 4096, (1, 32, 128)),
        ((1, 128, 128), 4096, (1, 32, 128)),  # a face
        ((8, 8, 8, 100), 50, (1, 1, 1, 50)),
        ((7, 5), 100, (7, 5)),
        ((7, 5), 0, (1, 1)),
        ((30,), 8, (6,)),
    ],
)
def test_slabs_have_few_points_of_the_first_axes_and_all_of_the_last(shape, points, sizes):
    assert slab_sizes(shape, points) == sizes


def bytes_needed(model, inputs, shape, slab):
    """Of the loss and its gradient."""
    problem = model.problem
    collocation = Collocation(random_grid(problem, shape), (None,) * len(shape))
    arrays, static = eqx.partition(model, eqx.is_inexact_array)
    weights = jnp.ones((len(problem.terms(model.exact)), len(inputs["u"])))

    def loss(arrays, collocation, inputs):
        return physics_loss(eqx.combine(arrays, static), inputs, collocation, weights, slab).total

    lowered = jax.jit(jax.value_and_grad(loss)).lower(arrays, collocation, inputs)
    analysis = lowered.compile(compiler_options=QUICK).memory_analysis()
    assert analysis is not None
    return analysis.temp_size_in_bytes


def test_memory_is_flat_in_the_number_of_rows():
    """50 functions and 64 points in x; 32 or 256 rows in t, eight at a time."""
    problem = KdV()
    model, inputs = small(problem, exact="all", rank=8), problem.sample(jax.random.key(0), 50)
    many = bytes_needed(model, inputs, (256, 64), 8 * 64)
    assert many < 1.5 * bytes_needed(model, inputs, (32, 64), 8 * 64)
    assert many < bytes_needed(model, inputs, (256, 64), None) / 4
    assert many < 50 * 256 * 64 * 8  # less than one array of all values


def test_memory_is_flat_in_three_dimensions_with_faces():
    """20 functions with soft conditions on 16^3 or 32^3 points, 256 at a time: a row or a face of 32^2 is too large."""
    problem = NonlinearDiffusion()
    model, inputs = small(problem, rank=8), problem.sample(jax.random.key(0), 20)
    assert any(term.face is not None for term in problem.terms(model.exact))
    many = bytes_needed(model, inputs, (32, 32, 32), 256)
    assert many < 1.5 * bytes_needed(model, inputs, (16, 16, 16), 256)
    assert many < bytes_needed(model, inputs, (32, 32, 32), 1024) / 2  # slabs of whole rows
