"""The plan of a step says what the step then does."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from zoo import AnisotropicHeat, Brusselator, Poisson

from seponet import nn
from seponet.loss import Collocation, physics_loss
from seponet.plan import plan
from seponet.problems import Burgers, DiffusionReaction, NonlinearDiffusion
from seponet.sampling import Sampler

KEY = jax.random.key(0)
SMALL = {"trunk_width": 8, "trunk_depth": 1, "branch_width": 8, "branch_depth": 1, "sensors": 8}


def compiled(model, functions, points, rows):
    """The compiled loss and gradient of a model."""
    sampler = Sampler.of(model.problem.domain, points, "stratified")
    weights = jnp.ones((len(model.problem.terms(model.exact)), functions))
    inputs = model.problem.sample(KEY, functions)
    collocation: Collocation = sampler.draw(KEY, sampler.density())

    def loss(model, inputs, collocation, weights):
        return physics_loss(model, inputs, collocation, weights, rows).total

    return eqx.filter_jit(eqx.filter_value_and_grad(loss)).lower(model, inputs, collocation, weights).compile()


@pytest.mark.parametrize(
    ("problem", "contractions"),
    [
        (Burgers(), {"equation": 3}),
        (DiffusionReaction(), {"equation": 2}),
        (NonlinearDiffusion(), {"equation": 5}),
        (Poisson(), {"equation": 1}),
        (Brusselator(), {"equation_p": 3, "equation_q": 4}),
        (AnisotropicHeat(), {"equation": 4}),
    ],
)
def test_linear_terms_share_a_contraction(problem, contractions):
    model = nn.build(problem, rank=4, exact="all", key=KEY, **SMALL)
    made = plan(model, 10, 8)
    assert dict(made.contractions) == contractions
    shape = 8 ** len(problem.domain)
    assert made.flops_interior == 3 * sum(contractions.values()) * 2 * 4 * shape * 10


def test_orders_are_the_highest_that_any_term_asks_for():
    soft = plan(nn.build(Burgers(), rank=4, key=KEY, **SMALL), 10, 8)
    assert dict(soft.orders) == {"t": 1, "x": 2}
    assert set(soft.contractions) == {"equation", "t=0", "x periodic", "x periodic s_x"}


@pytest.mark.parametrize(("rank", "points", "functions", "rows"), [(64, 64, 100, 16), (32, 96, 200, 8)])
def test_flops_and_memory_are_those_of_the_compiled_step(rank, points, functions, rows):
    model = nn.build(Burgers(), rank=rank, exact="all", key=KEY, **SMALL)
    made = plan(model, functions, points, rows)
    program = compiled(model, functions, points, rows)
    temporary = program.compiled.memory_analysis().temp_size_in_bytes
    assert made.bytes == pytest.approx(temporary, rel=0.2)
