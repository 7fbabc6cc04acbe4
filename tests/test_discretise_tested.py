"""Tested residuals: they are integrals, and their Jacobians, whole or in blocks, those of automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import Brusselator, KdV, Poisson, Reactor, quick_jit

from seponet import Domain, Periodic, Problem, Value
from seponet.discretise.discretisation import Discretisation
from seponet.discretise.test_functions import make_tests
from seponet.discretise.tested import TestedResiduals, averaged_jacobian, jacobian_squares


class Strip(Problem):
    """Two coupled fields with different walls; the Jacobian couples no two waves of the periodic axis."""

    domain = Domain(x=Periodic(0, 2), y=(0, 1))
    fields = ("p", "q")
    conditions = [Value({"y": (0, 1)}, field="p"), Value({"y": 0}, field="q"), Value({"y": 1}, field="q", equals=1.0)]

    def equation_p(self, p, p_xx, p_yy, q):
        return p_xx + (1.0 + p) * p_yy + 2.0 * q

    def equation_q(self, q_xx, q_yy, p, y):
        return q_xx + y * q_yy - p**2 + 1.0


def setting(problem, exact, ranks, functions=2):
    """A discretisation, its nodes, sampled inputs and random coefficients."""
    discretisation = Discretisation.of(problem, exact, ranks)
    nodes = tuple((name, rank + 3) for name, rank in discretisation.ranks)
    inputs = problem.complete(problem.sample(jax.random.key(0), functions)) if problem.inputs else {}
    shape = (functions, *discretisation.coefficient_shape())
    return discretisation, nodes, inputs, jnp.asarray(0.3 * np.random.default_rng(1).normal(size=shape))


@pytest.mark.parametrize(
    ("problem", "exact", "ranks"),
    [
        (Poisson(), ("x", "y"), {"x": 4, "y": 3}),
        (KdV(), ("t", "x"), {"t": 3, "x": 5}),
        (Brusselator(), ("t",), {"t": 3, "x": 5}),  # two fields, soft walls of two kinds
        (Reactor(), ("t",), {"t": 3, "x": 5}),  # a nonlinear free residual
        (Poisson(), (), {"x": 5, "y": 4}),  # two soft axes
    ],
    ids=["interior", "periodic", "system", "free", "soft"],
)
def test_jacobians_are_those_of_automatic_differentiation(problem, exact, ranks):
    discretisation, nodes, inputs, c = setting(problem, exact, ranks)
    direction = jnp.asarray(np.random.default_rng(2).normal(size=c.shape))

    @quick_jit
    def run(inputs, c, direction):
        tested = TestedResiduals(discretisation, nodes, inputs, len(c))
        rows, slopes = tested.linearise(c)
        # Functions do not know of each other: a common displacement gives the Jacobian of each.
        expected = jax.jacfwd(lambda d: tested(c + d[None]))(jnp.zeros(c.shape[1:]))
        return rows, tested(c), tested.jacobian(slopes), expected, tested.push(slopes, direction)

    rows, value, matrices, expected, pushed = run(inputs, c, direction)
    np.testing.assert_allclose(rows, value, atol=1e-13 * np.abs(value).max())
    expected = np.asarray(expected).reshape(*rows.shape, -1)
    scale = np.abs(expected).max()
    assert np.abs(expected[0] - expected[1]).max() > 1e-3 * scale or type(problem) is Poisson
    matrices = np.broadcast_to(matrices[:, 0], expected.shape)
    np.testing.assert_allclose(matrices, expected, atol=1e-12 * scale)
    product = np.einsum("frc,fc->fr", expected, np.asarray(direction).reshape(len(c), -1))
    np.testing.assert_allclose(pushed, product, atol=1e-12 * np.abs(product).max())


def test_rows_are_integrals_of_the_residual_times_products_of_test_functions():
    problem = Poisson()
    discretisation, nodes, inputs, c = setting(problem, ("x", "y"), {"x": 3, "y": 4}, functions=1)
    tested = TestedResiduals(discretisation, nodes, inputs, 1)
    residual = np.asarray(tested.pieces[0].residual(c))[0]
    rows = np.asarray(tested(c)).reshape(3, 4)
    (x, wx), (y, wy) = (np.polynomial.legendre.leggauss(n) for _, n in nodes)
    x, wx = (x + 1) / 2, wx / 2  # the domain is (0, 1) x (0, 2)
    y = y + 1
    psi_x, psi_y = (b.table(p)[0] for b, p in zip(tested.tests[0].bases, (x, y), strict=True) if b is not None)
    for i, j in ((0, 0), (2, 3), (1, 2)):
        integral = sum(
            wx[a] * wy[b] * psi_x[a, i] * psi_y[b, j] * residual[a, b] for a in range(len(x)) for b in range(len(y))
        )
        assert rows[i, j] == pytest.approx(integral, rel=1e-10)


def test_blocks_are_the_full_matrix_where_waves_do_not_couple():
    problem = Strip()
    discretisation, nodes, inputs, c = setting(problem, ("x", "y"), {"x": 5, "y": 4})
    # Along the periodic axis the state is constant, so that its waves stay apart.
    c = c.at[:, :, 1:].set(0.0)

    @quick_jit
    def run(c):
        tested = TestedResiduals(discretisation, nodes, inputs, len(c))
        rows, slopes = tested.linearise(c)
        return rows, tested.jacobian(slopes), tested.jacobian(slopes, (0,))

    rng = np.random.default_rng(3)
    tested = TestedResiduals(discretisation, nodes, inputs, len(c))
    rows, full, blocks = run(c)
    rows = jnp.asarray(rng.normal(size=rows.shape))
    assert blocks.shape == (2, 5, 8, 8)
    assert full.shape == (2, 1, 40, 40)
    expected = np.linalg.solve(full[:, 0], np.asarray(rows)[..., None]).reshape(c.shape)
    gathered = np.asarray(tested.gather(rows, (0,)))
    solved = tested.scatter(jnp.asarray(np.linalg.solve(blocks, gathered[..., None])[..., 0]), (0,))
    np.testing.assert_allclose(solved, expected, atol=1e-11 * np.abs(expected).max())


def test_trial_functions_diagonalise_poissons_equation():
    problem = Poisson()
    discretisation, nodes, inputs, c = setting(problem, ("x", "y"), {"x": 3, "y": 4}, functions=1)
    tested = TestedResiduals(discretisation, nodes, inputs, 1)
    _, slopes = tested.linearise(c)
    whole, entries = np.asarray(tested.jacobian(slopes))[0, 0], np.asarray(tested.jacobian(slopes, (0, 1)))[0]
    np.testing.assert_allclose(np.diag(entries[:, 0, 0]), whole, atol=1e-11 * np.abs(whole).max())
    numbered = jnp.arange(12.0)[None]
    for diagonal in ((0,), (1,), (0, 1)):
        ordered = tested.scatter(tested.gather(numbered, diagonal), diagonal)
        np.testing.assert_array_equal(ordered.reshape(-1), numbered[0])
    assert list(tested.gather(numbered, (1,))[0, 1]) == [1.0, 5.0, 9.0]


def test_averages_and_squares_of_jacobians_are_sums_over_functions():
    problem = Reactor()
    discretisation, nodes, inputs, c = setting(problem, ("t",), {"t": 3, "x": 4}, functions=3)
    zero = jnp.zeros_like(c)

    @quick_jit
    def matrices(inputs, c):
        tested = TestedResiduals(discretisation, nodes, inputs, len(c))
        return tested.jacobian(tested.linearise(c)[1])[:, 0]

    average = averaged_jacobian(discretisation, nodes, inputs, c)[0]
    each = np.asarray(matrices(inputs, c))
    np.testing.assert_allclose(average, each.mean(axis=0), atol=1e-12 * np.abs(each).max())
    at_lift = np.asarray(matrices(inputs, zero))
    weights = np.random.default_rng(0).uniform(0.5, 2.0, (len(problem.terms(("t",))), 3))
    counts = [int(np.prod(tests.shape)) for tests in make_tests(discretisation)]
    by_row = np.repeat(weights, counts, axis=0).T  # all volumes and areas are one
    expected = np.einsum("frc,fr,frd->cd", at_lift, by_row, at_lift)
    squares = jacobian_squares(discretisation, nodes, inputs, jnp.asarray(weights), full=True)
    np.testing.assert_allclose(squares, expected, atol=1e-12 * np.abs(expected).max())
    diagonal = jacobian_squares(discretisation, nodes, inputs, jnp.asarray(weights))
    np.testing.assert_allclose(diagonal, np.diagonal(expected), rtol=1e-11)


def test_squares_are_relative_to_the_volume():
    problem = Poisson()  # of volume two, with walls of lengths one and two
    discretisation, nodes, inputs, c = setting(problem, ("x",), {"x": 3, "y": 4}, functions=1)
    tested = TestedResiduals(discretisation, nodes, inputs, 1)
    matrix = np.asarray(tested.jacobian(tested.linearise(jnp.zeros_like(c))[1]))[0, 0]
    volumes = np.repeat([2.0, 1.0, 1.0], [int(np.prod(t.shape)) for t in tested.tests])
    squares = jacobian_squares(discretisation, nodes, inputs, jnp.ones((3, 1)))
    np.testing.assert_allclose(squares, np.sum(matrix**2 / volumes[:, None], axis=0), rtol=1e-11)
