"""What a recipe leaves to the problem: numbers where it says "auto", chosen by a verified discretisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import KdV, Poisson

from seponet import Derivative, Domain, Problem, Value, nn
from seponet.discretise.discretisation import Discretisation
from seponet.discretise.level import Level
from seponet.discretise.newton import Solved
from seponet.discretise.resolution import Resolution
from seponet.functions import GaussianField
from seponet.problems import Heat
from seponet.runs.recipes import load_recipe
from seponet.training import ranks
from seponet.training.ranks import TOLERANCE, choose_ranks, resolve_auto
from seponet.training.recipe import Recipe
from seponet.training.sampling import Sampler

CLASSICAL = {"model.decoder": "tucker", "model.exact": "all", "model.trunk": "classical", "model.rank": "auto"}


class Bar(Problem):
    """s'' = u: one axis, so that its ranks are chosen in a moment."""

    domain = Domain(x=(0, 1))
    inputs = {"u": GaussianField(domain, length_scale=0.2)}
    conditions = [Value({"x": (0, 1)})]

    def equation(self, s_xx, u):
        return s_xx - u


class Insulated(Problem):
    """The input does not fit the walls: its slope there is not zero."""

    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {"u": GaussianField(domain["x"], length_scale=0.3)}
    conditions = [Value({"t": 0}, equals="u"), Derivative({"x": (0, 1)})]

    def equation(self, s_t, s_xx):
        return s_t - 0.1 * s_xx


def pretend(monkeypatch, exact: list[object] | None = None) -> None:
    """Ranks and nodes that cost nothing."""

    def choose(problem, chosen, *_):
        if exact is not None:
            exact.append(chosen)
        names = problem.domain.names
        discretisation = Discretisation.of(problem, names, dict.fromkeys(names, 7))
        coefficients = np.zeros((1, *discretisation.coefficient_shape()))
        solved = Solved(coefficients, np.ones(1, bool), np.zeros(1), np.ones(1), "direct")
        level = Level(discretisation, tuple((name, 19) for name in names), solved)
        return Resolution(level, level, np.zeros(1), np.zeros(1), {}, np.zeros(1), 1e-3, True, "", 0.0)

    monkeypatch.setattr(ranks, "choose_ranks", choose)


def test_a_recipe_gets_numbers_where_it_says_auto():
    recipe, lines = Recipe().changed(CLASSICAL | {"train.sampling.points": "auto"}), []
    chosen, resolution = resolve_auto(Bar(), recipe, progress=lines.append)
    assert resolution is not None
    assert resolution.reached
    assert len(resolution.errors) == ranks.FUNCTIONS == 8
    assert 0 < resolution.mean <= TOLERANCE
    assert chosen.model.rank == resolution.ranks
    # The nodes see the input, which has half as many functions again as the solution.
    assert chosen.train.sampling.points == resolution.nodes
    (band,) = resolution.bandwidths
    assert resolution.nodes["x"] >= resolution.ranks["x"] + band.functions
    assert lines
    assert resolve_auto(Bar(), chosen) == (chosen, None)


def test_points_follow_from_ranks_that_are_given():
    recipe = Recipe().changed(CLASSICAL | {"train.sampling.points": "auto", "model.rank": {"x": 5, "y": 8}})
    chosen, resolution = resolve_auto(Poisson(), recipe)
    assert resolution is None
    assert chosen.model.rank == {"x": 5, "y": 8}
    assert chosen.train.sampling.points == {"x": 8, "y": 12}
    equal, _ = resolve_auto(Poisson(), recipe.changed({"model.rank": 6}))
    assert equal.train.sampling.points == {"x": 9, "y": 9}


def test_a_small_tolerance_lets_the_branch_see_what_is_fine_in_an_input():
    """What is not seen of u is an error of the solution, however many functions and steps there are."""
    recipe = load_recipe("standard").changed({"model.rank": 6, "model.exact": "all", "train.tolerance": 1e-5})
    fine, _ = resolve_auto(Heat(), recipe)
    assert (fine.model.unseen, fine.model.ridge) == (pytest.approx(1e-12), 1e-8)
    assert resolve_auto(Heat(), fine)[0] == fine
    plain, _ = resolve_auto(Heat(), recipe.changed({"train.tolerance": 1e-2}))
    assert (plain.model.unseen, plain.model.ridge) == (1e-8, 0.0)
    unseen = []
    for model in (nn.build(Heat(), r.model, key=jax.random.key(0)) for r in (plain, fine)):
        values = model.encode(Heat().sample(jax.random.key(1), 400))
        seen = np.asarray(model.branch.features(model.prepare(values)[0]), np.float64)
        u = np.asarray(values["u"], np.float64).reshape(400, -1)
        left = u[200:] - seen[200:] @ np.linalg.lstsq(seen[:200], u[:200], rcond=None)[0]
        unseen.append(np.linalg.norm(left) / np.linalg.norm(u[200:]))
    assert unseen[0] > 1e-5
    assert unseen[1] < 3e-6


def test_points_that_are_given_stay(monkeypatch):
    pretend(monkeypatch)
    chosen, _ = resolve_auto(Poisson(), Recipe().changed(CLASSICAL | {"train.sampling.points": 33}))
    assert chosen.model.rank == {"x": 7, "y": 7}
    assert chosen.train.sampling.points == 33


@pytest.mark.parametrize(
    "change",
    [{"model.decoder": "cp"}, {"model.exact": "none"}, {"model.trunk": "legendre"}, {"model.kind": "deeponet"}],
)
def test_only_discretisations_have_ranks_to_choose(change, monkeypatch):
    pretend(monkeypatch)
    with pytest.raises(ValueError, match=r'model.rank = "auto" is for what a discretisation has: kind = "seponet"'):
        resolve_auto(Poisson(), Recipe().changed(CLASSICAL | change))


def test_auto_is_not_left_to_models_and_samplers():
    with pytest.raises(ValueError, match="needs its ranks as numbers"):
        nn.build(Poisson(), Recipe().changed(CLASSICAL).model, key=jax.random.key(0))
    with pytest.raises(ValueError, match="points are needed as numbers"):
        Sampler.of(Poisson().domain, "auto")


def test_an_axis_that_the_equation_does_not_name_is_found(monkeypatch):
    pretend(monkeypatch)
    general = load_recipe("quick")
    assert general.train.loss.residual == "tested"
    chosen, _ = resolve_auto(KdV(), general)
    assert chosen.model.invariant == "x"
    assert chosen.train.sampling.points == {"t": 19, "x": 19}
    chosen, _ = resolve_auto(Poisson(), general)
    assert chosen.model.invariant == ""


def test_ranks_are_chosen_for_the_axes_that_are_exact(monkeypatch):
    exact: list[object] = []
    pretend(monkeypatch, exact)
    for problem in (Poisson(), Insulated()):
        chosen, _ = resolve_auto(problem, Recipe().changed(CLASSICAL | {"model.exact": "auto"}))
        assert chosen.model.exact == exact[-1]
    # What contradicts the input is soft there, and the discretisation is that of the recipe.
    assert exact[0] == "all"
    assert exact[1] in (("t",), ("x",))


def test_ranks_that_cant_be_chosen_are_an_error(monkeypatch):
    class Root(Problem):
        """Not real where the solution starts."""

        domain = Domain(t=(0, 1))
        inputs = {"u": GaussianField(Domain(t=(0, 1)), length_scale=0.2)}
        conditions = [Value({"t": 0}, equals=1.0)]

        def equation(self, s, s_t, u):
            return s_t - jnp.sqrt(s - 10.0) - u

    resolve = ranks.resolve
    monkeypatch.setattr(ranks, "resolve", lambda *given, **named: resolve(*given, **named, largest=20))
    with pytest.raises(ValueError, match=r"no ranks could be chosen for Root, .* `sqrt` of -9 is no number"):
        choose_ranks(Root())
