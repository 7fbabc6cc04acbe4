"""A problem is written once: grid and points, all decoders and models give the same residuals and derivatives."""

import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from zoo import ZOO, AnisotropicHeat, Brusselator, KdV, Pendulum, Plate, Reactor, quick_jit, random_grid, small

from seponet import Grid
from seponet.calculus.evaluate import evaluate, residuals
from seponet.derivatives import multi_index
from seponet.equations.symbols import Symbol
from seponet.nn import CP, MLP, Constant, DeepONet, NetworkTrunk, RepeatedDeepONet, SepONet, Tucker

CP_SOFT: dict[str, Any] = {}
CP_EXACT = {"exact": "all"}
TUCKER_CLASSICAL_EXACT = {"exact": "all", "trunk": "classical", "decoder": "tucker"}
TUCKER_SOFT = {"decoder": "tucker", "rank": {"t": 2, "x": 4}, "trunk": {"t": "chebyshev", "x": "modified_mlp"}}
DEEPONET_EXACT = {"kind": "deeponet", "exact": "all"}


def sample(problem):
    return problem.sample(jax.random.key(0), 3)


def assert_same(found, expected):
    """To 1e-10 of the size of each residual, on faces too, where a grid has one point along the face's axis."""
    assert found.keys() == expected.keys()
    for name in found:
        grid, points = np.asarray(found[name]), np.asarray(expected[name])
        size = np.abs(points).max()
        assert size > 1e-3, f"{name} vanishes, so it tests nothing"
        difference = np.abs(np.broadcast_to(grid, points.shape) - points).max()
        assert difference < 1e-10 * size, (name, difference, size)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        *itertools.product(ZOO, [CP_SOFT, CP_EXACT, TUCKER_CLASSICAL_EXACT]),
        (Brusselator, TUCKER_SOFT),
        (KdV, DEEPONET_EXACT),
    ],
)
def test_a_grid_equals_its_mesh_points(kind, config):
    problem = kind()
    model, grid, inputs = small(problem, **config), random_grid(problem), sample(problem)

    @quick_jit
    def both(model, inputs, grid):
        at_points = residuals(model, inputs, grid.mesh())
        return residuals(model, inputs, grid), {n: r.reshape(-1, *grid.shape) for n, r in at_points.items()}

    assert_same(*both(model, inputs, grid))


@pytest.mark.parametrize("kind", [KdV, Brusselator, Reactor])
def test_the_two_forms_of_a_deeponet_agree(kind):
    """Shared trunk in forward mode, or every point repeated for every function in reverse mode."""
    problem = kind()
    inputs, points = sample(problem), random_grid(problem, (2, 3)).mesh()
    shared, repeated = small(problem, kind="deeponet"), small(problem, kind="deeponet_repeated")
    assert isinstance(shared, DeepONet)
    assert isinstance(repeated, RepeatedDeepONet)
    assert eqx.tree_equal(shared.trunk, repeated.trunk)
    run = quick_jit(lambda *models: [residuals(model, inputs, points) for model in models])
    assert_same(*run(shared, repeated))


def test_faces_may_have_locations_of_their_own():
    problem = AnisotropicHeat()
    model, inputs = small(problem, exact=("x", "z")), sample(problem)
    where, boundary = random_grid(problem, (2, 3, 2, 2)), random_grid(problem, (4, 2, 3, 3)).mesh()
    run = quick_jit(lambda *places: [residuals(model, inputs, *p) for p in (places, places[1:], places[:1])])
    mixed, at_boundary, at_where = run(where, boundary)
    assert mixed["equation"].shape == (3, 2, 3, 2, 2)
    for name in mixed:
        expected = at_where if name == "equation" else at_boundary
        np.testing.assert_allclose(mixed[name], expected[name], rtol=1e-10, atol=1e-12)


class Waves(eqx.Module):
    """sin(2x), exp(x / 2), x^5 and 1: as a module without `taylor`, it is pushed by nested jvp."""

    def __call__(self, x: Float[Array, "n 1"]) -> Float[Array, "n 4"]:
        return jnp.concatenate([jnp.sin(2 * x), jnp.exp(x / 2), x**5, jnp.ones_like(x)], axis=-1)


def waves(x, m):
    """The m-th derivatives of `Waves`, by hand: `[4, n]`."""
    power = math.perm(5, m) * x ** (5 - m)
    return np.stack([2**m * np.sin(2 * x + m * np.pi / 2), 0.5**m * np.exp(x / 2), power, np.full_like(x, m == 0)])


def derivatives(model, grid, orders):
    symbols = [Symbol("field", "s", multi_index(x=m, y=n)) for m, n in orders]
    return [values[0] for values in quick_jit(lambda grid: list(evaluate(model, {}, grid, symbols).values()))(grid)]


def assert_close(values, expected, label):
    np.testing.assert_allclose(values, expected, atol=1e-11 * np.abs(expected).max(), err_msg=str(label))


ORDERS = [(0, 0), (1, 0), (0, 2), (4, 0), (0, 4), (1, 1), (2, 2), (3, 1), (1, 3)]


@pytest.mark.parametrize("decoder", [CP(4), Tucker((4, 4))])
def test_derivatives_of_products_are_those_of_closed_forms(decoder):
    grid = random_grid(Plate())
    x, y = (np.asarray(p) for p in grid.points)
    branch = Constant(math.prod(decoder.shape(2)), key=jax.random.key(1))
    trunks = (NetworkTrunk(Waves(), (None,)), NetworkTrunk(Waves(), (None,)))
    weights = np.asarray(branch.coefficients)
    core = weights.reshape(4, 4) if isinstance(decoder, Tucker) else np.diag(weights)
    orders = [*ORDERS, (4, 4)]
    model = SepONet(Plate(), (), (), branch, trunks=trunks, decoder=decoder)
    for (m, n), values in zip(orders, derivatives(model, grid, orders), strict=True):
        assert_close(values, np.einsum("kl,ki,lj->ij", core, waves(x, m), waves(y, n)), (m, n))


@pytest.mark.parametrize("sizes", [(2, 5), (5, 2), (2, 3, 6), (6, 3, 2), (3, 7, 3, 2), (4,)])
def test_axes_may_be_contracted_in_either_direction(sizes):
    """A sum of derivatives with cores of few functions along the first or the last axis, and its gradient, against one
    sum over everything."""
    random, shape = np.random.default_rng(0), (5, 4, 6, 3)[: len(sizes)]
    core = jnp.asarray(random.standard_normal((3, *sizes)))
    tables = [jnp.asarray(random.standard_normal((3, r, n))) for r, n in zip(sizes, shape, strict=True)]
    terms = [(1.0, (0,) * len(sizes)), (-2.0, (1,) * len(sizes)), (0.5, (0,) * (len(sizes) - 1) + (2,))]
    ranks, points = "abcd"[: len(sizes)], "wxyz"[: len(sizes)]
    sums = f"f{ranks},{','.join(map(''.join, zip(ranks, points, strict=True)))}->f{points}"

    def expected(core):
        values = [[t[m] for t, m in zip(tables, orders, strict=True)] for _, orders in terms]
        return sum(c * jnp.einsum(sums, core, *of_term) for (c, _), of_term in zip(terms, values, strict=True))

    decoder = Tucker(sizes)
    first, last = decoder._flops_from_first(shape, terms), decoder._flops_from_last(shape, terms)
    assert decoder.flops(shape, terms) == min(first, last)
    assert (last < first) == (len(sizes) > 1 and sizes[0] < sizes[-1])
    for of in (lambda f: f(core), lambda f: jax.grad(lambda c: jnp.sum(f(c) ** 3))(core)):
        found = of(lambda c: decoder.contract(c, tables, terms, grid=True))
        np.testing.assert_allclose(found, of(expected), rtol=1e-11, atol=1e-9)


def test_derivatives_of_functions_of_all_coordinates_are_those_of_closed_forms():
    r"""$\partial_x^m \partial_y^n \sin(a x + b y + c) = a^m b^n \sin(a x + b y + c + (m + n) \pi / 2)$."""
    grid = random_grid(Plate())
    branch, trunk = Constant(4, key=jax.random.key(1)), MLP(2, 4, 4, 0, "sine", "sine", key=jax.random.key(2))
    (layer,) = trunk.layers
    x, y = np.meshgrid(*(np.asarray(p) for p in grid.points), indexing="ij")
    found = derivatives(DeepONet(Plate(), (), (), branch, trunk=trunk, rank=4), grid, ORDERS)
    for (m, n), values in zip(ORDERS, found, strict=True):
        expected = sum(
            weight * a**m * b**n * np.sin(a * x + b * y + c + (m + n) * np.pi / 2)
            for weight, a, b, c in zip(*map(np.asarray, (branch.coefficients, *layer.weight, layer.bias)), strict=True)
        )
        assert_close(values, expected, (m, n))


@pytest.mark.parametrize("config", [{}, TUCKER_CLASSICAL_EXACT, {"kind": "deeponet"}])
def test_a_derivative_is_the_limit_of_differences_of_values(config):
    """Of the whole model, lift and network: the equation's residual of the pendulum, from values alone."""
    problem = Pendulum()
    model, inputs = small(problem, **config), sample(problem)
    centre, h = jnp.asarray([0.5, 2.0]), 1e-2
    stencil = centre[:, None] + h * jnp.arange(-3.0, 4.0)[None]
    grids = [Grid.of(problem.domain, {"t": t}) for t in (centre, stencil.reshape(-1))]
    s = Symbol("field", "s")
    run = quick_jit(lambda *g: (residuals(model, inputs, g[0])["equation"], evaluate(model, inputs, g[1], [s])[s]))
    residual, values = run(*grids)
    values = values.reshape(3, 2, 7)
    second = values @ jnp.asarray([2, -27, 270, -490, 270, -27, 2]) / (180 * h**2)
    expected = second + jnp.sin(values[:, :, 3])
    np.testing.assert_allclose(residual, expected, rtol=1e-7, atol=1e-8)
