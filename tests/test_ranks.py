"""Residual floors: exact for linear problems, and a choice of ranks that keeps its promise."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import Brusselator, KdV, Poisson, Wave

from seponet import Domain, Problem, Value, nn
from seponet.calculus.collocation import make_collocation, quadrature_nodes
from seponet.calculus.evaluate import evaluate
from seponet.calculus.model import FixedCoefficients
from seponet.equations.symbols import Symbol
from seponet.functions import GaussianField
from seponet.operator.refinement import gauss_newton
from seponet.runs.recipes import load_recipe
from seponet.training import ranks
from seponet.training.ranks import Floor, Floors, choose_ranks, resolve_auto
from seponet.training.recipe import Recipe
from seponet.training.sampling import Sampler

S = Symbol("field", "s")


def solve(problem, ranks, inputs, nodes=None) -> Any:
    """Gauss-Newton with these ranks: its values on the quadrature grid, and the nodes."""
    settings = {"decoder": "tucker", "exact": "all", "trunk": "classical", "sensors": 2, "branch_width": 1}
    model = nn.build(problem, key=jax.random.key(0), rank=ranks, branch_depth=1, **settings)
    nodes = nodes or quadrature_nodes(model)
    start = jnp.zeros((3, *model.coefficient_shape()))
    found, _, _ = gauss_newton(model, inputs, start, {}, nodes, 2, 1 << 28)
    where = make_collocation(model, nodes)
    return (
        np.asarray(evaluate(FixedCoefficients(model, jnp.asarray(found)), inputs, where.where, [S])[S]),
        nodes,
        where.weights,
    )


def test_the_floor_of_a_linear_problem_is_what_gauss_newton_reaches():
    problem, large, small = Poisson(), {"x": 9, "y": 10}, {"x": 6, "y": 4}
    floor = Floors(problem, large)(small)
    inputs = problem.sample(jax.random.key(1), 3)
    generous, nodes, (w, v) = solve(problem, large, inputs)
    coarse, _, _ = solve(problem, small, inputs, nodes)

    def norm(values):
        return np.sqrt(np.einsum("fxy,x,y->f", values**2, w, v))

    assert floor.error == pytest.approx(np.mean(norm(coarse - generous) / norm(generous)), rel=1e-5)
    assert 1e-4 < floor.error < 0.2


def test_the_floor_of_a_basis_against_itself_is_zero_and_grows_as_it_shrinks():
    floors = Floors(Brusselator(), {"t": 5, "x": 6}, functions=2)
    errors = [floors({"t": t, "x": x}).error for t, x in ((5, 6), (5, 5), (4, 4), (2, 2))]
    assert errors[0] < 1e-7
    assert errors == sorted(errors)


def test_ranks_follow_the_tolerance():
    floors = Floors(Wave(), {"t": 12, "x": 16})
    loose, tight, largest = (floors.choose(tolerance) for tolerance in (0.3, 0.05, 0.0))
    assert loose.error <= 0.3
    assert tight.error <= 0.05
    assert np.prod(list(loose.ranks.values())) < np.prod(list(tight.ranks.values()))
    # Out of reach: the largest that leave a quarter of the generous basis to judge them by.
    assert dict(largest.ranks) == {"t": 8, "x": 12}


def test_a_recipe_gets_numbers_where_it_says_auto():
    recipe = Recipe().changed(
        {"model.decoder": "tucker", "model.exact": "all", "model.trunk": "classical", "model.rank": "auto"}
    )
    chosen, floor = resolve_auto(Poisson(), recipe.changed({"train.sampling.points": "auto"}))
    assert floor is not None
    assert floor.error < 2e-3
    assert chosen.model.rank == dict(floor.ranks)
    assert chosen.train.sampling.points == {name: int(np.ceil(1.5 * rank)) for name, rank in floor.ranks.items()}
    assert resolve_auto(Poisson(), chosen) == (chosen, None)
    with pytest.raises(ValueError, match='rank = "auto" is for what its floors are calculated for'):
        resolve_auto(Poisson(), recipe.changed({"model.decoder": "cp"}))
    with pytest.raises(ValueError, match="needs its ranks as numbers"):
        nn.build(Poisson(), recipe.model, key=jax.random.key(0))
    with pytest.raises(ValueError, match="points are needed as numbers"):
        Sampler.of(Poisson().domain, "auto")


def test_an_axis_that_the_equation_does_not_name_is_found_and_gets_pairs_of_waves(monkeypatch):
    monkeypatch.setattr(ranks, "choose_ranks", lambda _: Floor({"t": 6, "x": 8, "y": 8}, 0.0))
    general = load_recipe("quick")
    found, _ = resolve_auto(KdV(), general)
    assert found.model.invariant == "x"
    assert found.model.rank == {"t": 6, "x": 9, "y": 8}
    found, _ = resolve_auto(Poisson(), general)
    assert found.model.invariant == ""
    assert found.model.rank == {"t": 6, "x": 8, "y": 8}


def test_ranks_that_cant_be_chosen_are_an_error():
    class Root(Problem):
        """Not real where the solution starts."""

        domain = Domain(t=(0, 1))
        inputs = {"u": GaussianField(Domain(t=(0, 1)), length_scale=0.2)}
        conditions = [Value({"t": 0}, equals=1.0)]

        def equation(self, s, s_t, u):
            return s_t - jnp.sqrt(s - 10.0) - u

    with pytest.raises(ValueError, match="no ranks could be chosen for Root"):
        choose_ranks(Root())
