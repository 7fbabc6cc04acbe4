"""The plan of a step says what the step then does."""

import re
from typing import Any

import jax
import pytest
from test_training import compilations
from zoo import AnisotropicHeat, Brusselator, Poisson

from seponet import nn
from seponet.problems import Burgers, DiffusionReaction, NonlinearDiffusion
from seponet.training.config import LossConfig, OptimizerConfig, SamplingConfig, TrainConfig
from seponet.training.cost import choose_slab, estimate_cost
from seponet.training.step import TrainStep

KEY = jax.random.key(0)
SMALL: dict[str, Any] = {"trunk_width": 8, "trunk_depth": 1, "branch_width": 8, "branch_depth": 1, "sensors": 8}


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
    made = estimate_cost(model, 10, 8)
    assert dict(made.contractions) == contractions
    shape = 8 ** len(problem.domain)
    assert made.flops_interior == 3 * sum(contractions.values()) * 2 * 4 * shape * 10


def test_orders_are_the_highest_that_any_term_asks_for():
    soft = estimate_cost(nn.build(Burgers(), rank=4, key=KEY, **SMALL), 10, 8)
    assert dict(soft.orders) == {"t": 1, "x": 2}
    assert set(soft.contractions) == {"equation", "t=0", "x periodic", "x periodic s_x"}


@pytest.mark.parametrize(
    ("problem", "model", "functions", "points"),
    [
        (Burgers(), {"rank": 32}, 100, 48),
        (Burgers(), {"rank": 24, "exact": "all", "decoder": "tucker"}, 100, 48),
        (NonlinearDiffusion(), {"rank": 16}, 20, 16),
        (Burgers(), {"rank": 16, "kind": "deeponet"}, 50, 16),
    ],
)
def test_memory_hardly_depends_on_the_optimizer_and_on_how_points_are_drawn(problem, model, functions, points):
    network = nn.build(problem, key=KEY, **{**SMALL, **model})
    slab = choose_slab(network, functions)
    plain = TrainConfig(
        functions=functions,
        sampling=SamplingConfig(points, "stratified" if network.separable else "uniform", resample=2),
        optimizer=OptimizerConfig("adam"),
        loss=LossConfig(normalise=False),
    )
    other = TrainConfig(
        functions=functions, sampling=SamplingConfig(points, "uniform"), optimizer=OptimizerConfig("muon")
    )
    sizes = [TrainStep(network, config, slab, KEY).memory() for config in (plain, other)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.2)


def test_printing_a_plan_compiles_nothing():
    cost = estimate_cost(nn.build(Burgers(), rank=4, key=KEY, **SMALL), 10, 8)
    with compilations() as compiled:
        shown = str(cost)
    assert re.match(r"\d+ contractions a step, 0.00 GFLOP in slabs of \d+ points", shown)
    assert compiled == []
