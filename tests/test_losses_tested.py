"""The loss of tested residuals: its definition, gradient, zero and whitening; and a training that lowers it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_losses_pointwise import gauss_grid
from zoo import AllenCahn, Brusselator, Poisson, Reactor, quick_jit, small

from seponet import Domain, Problem, Value
from seponet.calculus.model import FixedCoefficients
from seponet.discretise.newton import newton
from seponet.discretise.solve import solve_functions
from seponet.discretise.tested import TestedResiduals
from seponet.functions import GaussianField
from seponet.losses.pointwise import physics_loss
from seponet.losses.tested import TestedResidual, discretisation_of, nodes_of
from seponet.runs.recipes import load_recipe
from seponet.runs.train import train
from seponet.training import whitening
from seponet.training.whitening import whiten_tested

CLASSICAL = {"trunk": "classical", "decoder": "tucker", "exact": "all"}


class Bar(Problem):
    """s'' = u + s^3 / 10: quickly learned, and quickly solved."""

    domain = Domain(x=(0, 1))
    inputs = {"u": GaussianField(domain, length_scale=0.4)}
    conditions = [Value({"x": (0, 1)})]

    def equation(self, s, s_xx, u):
        return s_xx - 0.1 * s**3 - u


def setting(problem, functions=2, **config):
    model = small(problem, **(CLASSICAL | config))
    inputs = problem.complete(problem.sample(jax.random.key(1), functions))
    shape = (functions, *model.coefficient_shape())
    return model, inputs, gauss_grid(problem), jnp.asarray(0.3 * np.random.default_rng(0).normal(size=shape))


@pytest.mark.parametrize(
    ("problem", "config"),
    [
        (Poisson(), {}),  # of volume two
        (Brusselator(), {"exact": ("t",), "rank": 4}),  # a system with soft walls
        (Reactor(), {"exact": "all", "rank": 4}),  # a free residual
    ],
    ids=["Poisson", "Brusselator", "Reactor"],
)
def test_the_loss_is_the_sum_of_squared_rows_over_the_volume(problem, config):
    model, inputs, grid, c = setting(problem, **config)
    terms = problem.terms(model.exact)
    weights = jnp.asarray(np.random.default_rng(2).uniform(0.5, 2.0, (len(terms), 2)))

    @quick_jit
    def run(c):
        tested = TestedResiduals(discretisation_of(model), nodes_of(model, grid), inputs, 2)
        losses = TestedResidual().loss(model, inputs, grid, weights, c)
        lifted = TestedResidual().table(model, inputs, grid, None, 2)
        return tested(c), losses.total, losses.table, lifted, TestedResidual().table(model, inputs, grid, 0 * c, 2)

    rows, total, table, lifted, zero = run(c)
    tests = TestedResiduals(discretisation_of(model), nodes_of(model, grid), inputs, 2).tests
    counts = np.cumsum([int(np.prod(t.shape)) for t in tests])
    areas = [2.0 if type(problem) is Poisson else 1.0] * len(terms)
    expected = np.stack(
        [np.sum(part**2, axis=1) / a for part, a in zip(np.split(rows, counts[:-1], axis=1), areas, strict=True)]
    )
    np.testing.assert_allclose(table, expected, rtol=1e-10)
    assert total == pytest.approx(np.sum(np.asarray(weights) * expected), rel=1e-10)
    np.testing.assert_allclose(lifted, zero, rtol=1e-10, atol=1e-14)


def test_it_is_the_part_of_the_mean_square_that_test_functions_see():
    """At most the mean square over points, and all of it for a residual that lies in their span."""

    class Identity(Problem):
        domain = Poisson.domain
        inputs = Poisson.inputs
        conditions = Poisson.conditions

        def equation(self, s):
            return s

    for problem, whole in ((Poisson(), False), (Identity(), True)):
        model, inputs, grid, c = setting(problem)
        ones = jnp.ones((1, 2))
        tested = TestedResidual().loss(model, inputs, grid, ones, c).table
        pointwise = physics_loss(FixedCoefficients(model, c), inputs, grid, ones).table
        if whole:
            np.testing.assert_allclose(tested, pointwise, rtol=1e-10)
        else:
            assert np.all(tested < 0.99 * pointwise)
            assert np.all(tested > 0)


def test_it_vanishes_at_the_solution_and_only_there():
    model, inputs, grid, c = setting(AllenCahn(), rank=5)
    nodes = nodes_of(model, grid)
    solved = newton(discretisation_of(model), nodes, inputs, np.zeros(c.shape), tolerance=1e-10)
    assert solved.converged.all()
    loss = quick_jit(lambda c: TestedResidual().loss(model, inputs, grid, jnp.ones((1, 2)), c).table)
    start, end = loss(jnp.zeros_like(c)), loss(jnp.asarray(solved.coefficients))
    assert np.all(end < 1e-16 * start)
    moved = loss(jnp.asarray(1.01 * solved.coefficients))
    assert np.all(moved > 1e-8 * start)


def test_its_gradient_is_that_of_differences():
    model, inputs, grid, c = setting(Brusselator(), exact=("t",), rank=4)
    weights = jnp.ones((len(model.problem.terms(model.exact)), 2))
    loss = quick_jit(lambda c: TestedResidual().loss(model, inputs, grid, weights, c).total)
    gradient = quick_jit(jax.grad(lambda c: TestedResidual().loss(model, inputs, grid, weights, c).total))(c)
    direction = jnp.asarray(np.random.default_rng(4).normal(size=c.shape))
    h = 1e-5
    slope = (loss(c + h * direction) - loss(c - h * direction)) / (2 * h)
    assert float(jnp.sum(gradient * direction)) == pytest.approx(float(slope), rel=1e-6)


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_whitening_makes_the_mean_square_of_the_jacobian_one(kind):
    """With ridge 0 the whitened Hessian at the lift has a unit diagonal, and is the identity for a full whitening."""
    problem = AllenCahn()
    model, inputs, grid, c = setting(problem, functions=3)
    weights = jnp.asarray(np.random.default_rng(5).uniform(0.5, 2.0, (1, 3)))
    white = whiten_tested(model, inputs, grid, weights, kind=kind, ridge=0.0)
    tested = TestedResiduals(discretisation_of(model), nodes_of(model, grid), inputs, 3)

    @quick_jit
    def jacobians(z):
        def rows(z):
            assert white.whitening is not None
            return tested(jnp.broadcast_to(white.whitening(z[None]).reshape(1, *c.shape[1:]), c.shape))

        return jax.jacfwd(rows)(z)

    matrices = np.asarray(jacobians(jnp.zeros(model.size)))
    hessian = np.einsum("frc,f,frd->cd", matrices, np.asarray(weights)[0], matrices)
    np.testing.assert_allclose(np.diagonal(hessian), 1.0, rtol=1e-9)
    off = np.abs(hessian - np.diag(np.diagonal(hessian))).max()
    assert off < 1e-9 if kind == "full" else off > 1e-3


def test_whitening_averages_over_few_functions_with_the_weight_of_all(monkeypatch):
    monkeypatch.setattr(whitening, "SAMPLED", 2)
    problem = Poisson()  # linear: every function has the same Jacobian
    model, inputs, grid, _ = setting(problem, functions=4)
    few = whiten_tested(model, inputs, grid, jnp.ones((1, 4)), kind="diagonal").whitening
    monkeypatch.setattr(whitening, "SAMPLED", 4)
    many = whiten_tested(model, inputs, grid, jnp.ones((1, 4)), kind="diagonal").whitening
    assert few is not None
    assert many is not None
    outputs = jnp.ones((1, model.size))
    np.testing.assert_allclose(few(outputs), many(outputs), rtol=1e-10)


def test_training_on_tested_residuals_approaches_the_solutions():
    problem = Bar()
    recipe = load_recipe("quick").changed(
        {
            "model.rank": 8,
            "model.sensors": 12,
            "model.branch_width": 32,
            "model.branch_depth": 2,
            "train.steps": 200,
            "train.functions": 32,
            "train.optimizer.name": "adam",
            "train.optimizer.rate": 1e-2,
            "train.amplitude": 1.0,
        }
    )
    assert recipe.train.loss.residual == "tested"
    operator = train(problem, recipe, quiet=True, figures=False, functions=4)
    inputs = problem.sample(jax.random.key(9), 6)
    x = np.linspace(0, 1, 40)
    truth = solve_functions(problem, inputs, 1e-3)({"x": x}, "s")
    predicted = np.asarray(operator.predict(inputs, x=x))
    errors = np.linalg.norm(predicted - truth, axis=1) / np.linalg.norm(truth, axis=1)
    assert np.mean(errors) < 0.1  # that of the lift alone is one


def test_what_can_not_be_tested_is_said():
    problem = Poisson()
    loss = TestedResidual()
    loss.check(small(problem, **CLASSICAL), ("gauss", "gauss"))
    for config in ({"exact": "all"}, {**CLASSICAL, "decoder": "cp"}, {**CLASSICAL, "trunk": "chebyshev"}):
        with pytest.raises(ValueError, match="residuals are tested on classical trial functions with one coefficient"):
            loss.check(small(problem, **config), ("gauss", "gauss"))
    with pytest.raises(ValueError, match=r'"tested" needs quadrature points: .* got uniform, gauss'):
        loss.check(small(problem, **CLASSICAL), ("uniform", "gauss"))
