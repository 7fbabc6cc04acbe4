"""A branch that marches through time: its filters, its windows, the equations that it is for, and its training."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from frozen_runtimes import run_numpy
from test_training_targets import Front, same
from zoo import AllenCahn, KdV, Wave

import seponet
from seponet import Domain, Periodic, Problem, Value, nn
from seponet.bases.orthonormal import Orthonormal
from seponet.bases.polynomial import Legendre
from seponet.derivatives import Trace
from seponet.domain import Interval
from seponet.equations.evolution import Evolution, find_evolution, is_linear
from seponet.functions import Scalar, SpectralField
from seponet.nn.axis_filter import AxisFilter, GridFilter
from seponet.nn.marching_branch import MarchingBranch, project_windows, window_nodes
from seponet.nn.translation import Translation
from seponet.operator.export import freeze
from seponet.training.loop import prepare
from seponet.training.ranks import resolve_auto
from seponet.training.recipe import Recipe

KEY = jax.random.key(0)

SMALL = {
    "model": {
        "decoder": "tucker",
        "trunk": "classical",
        "exact": "all",
        "rank": {"t": 4, "x": 9},
        "branch": "marching",
        "branch_width": 6,
        "branch_depth": 1,
    },
    "train": {
        "steps": 200,
        "functions": 16,
        "loss": {"residual": "tested"},
        "sampling": {"points": {"t": 8, "x": 16}},
        "optimizer": {"rate": 1e-2},
        "targets": {"pool": 200, "renew": 100, "first": 64},
    },
}


class Decay(Problem):
    """Two fields that decay, one of them from zero, in a strip with a wall at each side; `a` acts everywhere alike."""

    domain = Domain(x=(0, 1), t=(0, 2), y=Periodic(0, 1))
    fields = ("p", "q")
    inputs = {"u": SpectralField(domain["x", "y"], sigma=100.0, tau=5.0, gamma=5.0, modes=2), "a": Scalar(0.5, 1.0)}
    conditions = [Value({"t": 0}, equals="u", field="p"), Value({"t": 0}, field="q")]

    def equation_p(self, p, p_t):
        return p_t + p

    def equation_q(self, p, q, q_t, a):
        return q_t + a * q - p


class Wall(Problem):
    """Heat between cold walls: linear."""

    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=30.0, tau=3.0, gamma=4.0)}
    conditions = [Value({"t": 0}, equals="u"), Value({"x": (0, 1)})]

    def equation(self, s, s_t, s_xx):
        return s_t - s_xx


class Reaction(Wall):
    """The same with a reaction: the initial state satisfies the conditions at the walls at all times."""

    def equation(self, s, s_t, s_xx):
        return s_t - s_xx + s**3


class Warm(Reaction):
    """The same with walls that the initial state does not know."""

    conditions = [Value({"x": (0, 1)}, equals=1.0), Value({"t": 0}, equals="u")]


def test_a_filter_on_a_circle_commutes_with_translations():
    filters = GridFilter((7, 6), (True, True), 3, 2, key=KEY)
    x = jax.random.normal(jax.random.key(1), (3, 2, 7, 6))
    moved = filters(jnp.roll(x, (2, 3), (2, 3)))
    np.testing.assert_allclose(moved, jnp.roll(filters(x), (2, 3), (2, 3)), atol=1e-12)


def test_a_filter_on_an_interval_is_that_of_mirror_images_on_a_circle():
    n = 6
    interval = AxisFilter(n, False, 2, 2, key=KEY)
    circle = eqx.tree_at(lambda f: f.kernel, AxisFilter(2 * n - 2, True, 2, 2, key=KEY), interval.kernel)
    x = np.random.default_rng(0).normal(size=n)
    mirrored = np.concatenate([x, x[-2:0:-1]])
    np.testing.assert_allclose(interval.matrix() @ x, (circle.matrix() @ mirrored)[:, :n], atol=1e-12)
    # It starts near: what is farther away than its reach is not seen.
    assert np.all(np.asarray(interval.matrix())[:, 0, 3:] == 0)
    np.testing.assert_array_equal(AxisFilter(n, False, 2, None, key=KEY).matrix()[0], np.eye(n))


def test_polynomials_in_windows_are_projected_on_the_basis():
    axis = Interval(1.0, 3.0)
    basis = Orthonormal(Legendre, axis, 6, (Trace(1.0, (1.0,)),))
    matrix = project_windows(basis, 3, 6)
    nodes = axis.lower + axis.length * (np.arange(3)[:, None] + window_nodes(6)) / 3
    c = np.array([0.3, -0.2, 0.1, 0.5, 0.4, 0.7])
    recovered = np.tensordot(matrix, (basis.table(nodes.reshape(-1))[0] @ c).reshape(3, 7), 2)
    np.testing.assert_allclose(recovered, c, atol=1e-10)


def test_equations_of_first_order_in_time_whose_states_are_inputs_can_be_marched():
    assert find_evolution(Front()) == Evolution("t", ("x",), ("u",), ())
    assert find_evolution(Decay()) == Evolution("t", ("x", "y"), ("u", ""), ("a",))
    with pytest.raises(ValueError, match="first order"):
        find_evolution(Wave())

    class Known(Front):
        conditions = [Value({"t": 0}, equals=lambda u: 2 * u)]

    with pytest.raises(ValueError, match="neither from an input on x nor from zero"):
        find_evolution(Known())

    class Later(Front):
        def equation(self, s, s_t, s_xx, t):  # pyright: ignore[reportIncompatibleMethodOverride]
            return s_t - t * s_xx

    with pytest.raises(ValueError, match="depends on t"):
        find_evolution(Later())


def test_linear_equations_are_known_by_their_values():
    assert is_linear(Wall())
    assert is_linear(Wave())
    assert not is_linear(Front())
    # A coefficient that is an input multiplies the field.
    assert not is_linear(Decay())


def test_a_window_that_is_right_makes_a_solution_that_is_right():
    """Of decay, the last layer that takes the linear part alone is known: e^-tau - 1 at every node."""
    model = nn.build(
        Decay(),
        decoder="tucker",
        trunk="classical",
        exact=("t", "y"),
        rank={"x": 9, "t": 8, "y": 5},
        branch="marching",
        branch_width=4,
        branch_depth=1,
        key=KEY,
    )
    branch = model.branch
    assert isinstance(branch, MarchingBranch)
    assert (branch.marked, branch.windows, branch.grid) == ((0,), 2, (18, 5))
    inputs = model.problem.sample(jax.random.key(2), 3)
    values = model.encode(inputs)
    assert np.all(np.asarray(model.coefficients(values)) == 0)
    # One output for every node and field, node by node; the window is as long as one unit of time.
    changes = np.exp(-window_nodes(branch.degree)[1:]) - 1
    weight = np.zeros(branch.last.weight.shape)
    for node, change in enumerate(changes):
        weight[4 + 2 * node, 2 * node] = change
    scale = branch.scales["u"]()
    branch = eqx.tree_at(lambda b: b.last.weight, branch, jnp.asarray(weight))
    branch = eqx.tree_at(lambda b: b.increments.value, branch, jnp.full(len(weight.T), scale))
    model = eqx.tree_at(lambda m: m.branch, model, branch)
    points: dict[str, Any] = {"x": np.linspace(0, 1, 4), "t": np.linspace(0, 2, 5), "y": np.linspace(0, 1, 3)}
    solution = seponet.Operator(model).predict({"u": np.asarray(values["u"]), "a": np.asarray(values["a"])}, **points)
    initial = solution["p"].sel(t=0.0)
    expected = (initial * np.exp(-solution["t"])).transpose(*solution["p"].dims)
    np.testing.assert_allclose(solution["p"], expected, atol=5e-3 * float(np.max(np.abs(initial))))
    assert np.max(np.abs(solution["q"])) < 1e-5


def test_translated_states_have_translated_solutions():
    model: Any = nn.build(
        KdV(),
        decoder="tucker",
        trunk="classical",
        exact="all",
        rank={"t": 5, "x": 9},
        branch="marching",
        branch_width=4,
        branch_depth=2,
        key=KEY,
    )
    random = jax.tree.map(lambda x: 0.3 * jax.random.normal(jax.random.key(3), x.shape), model.branch.last)
    model = eqx.tree_at(lambda m: m.branch.last, model, random)
    values = model.encode(model.problem.sample(KEY, 2))
    translate = Translation(1, (("u", 1),))
    moved = {"u": jnp.roll(values["u"], -2, 1)}
    angle = jnp.full(2, 2 * np.pi * 2 / 9)
    expected = translate.restore(model.coefficients(moved), angle)
    np.testing.assert_allclose(expected, model.coefficients(values), atol=1e-6)


def test_what_can_t_be_marched_is_told():
    settings = {"decoder": "tucker", "trunk": "classical", "branch": "marching", "key": KEY}
    with pytest.raises(ValueError, match="that the initial state of s satisfies at all times"):
        nn.build(Warm(), exact="all", rank=4, **settings)
    with pytest.raises(ValueError, match="an exact axis t"):
        nn.build(Front(), exact="none", rank=5, **settings)
    with pytest.raises(ValueError, match="neither from an input on x nor from zero"):
        nn.build(AllenCahn(), exact="all", rank=4, **settings)
    with pytest.raises(ValueError, match="core of a SepONet"):
        nn.build(Front(), kind="deeponet", rank=4, branch="marching", key=KEY)
    model = nn.build(Front(), exact="all", rank=5, **settings)
    with pytest.raises(ValueError, match="built for the inputs u; got v"):
        model.branch({"v": jnp.zeros((1, 5))})


@pytest.mark.parametrize(("rank", "branch"), [(9, "gated"), (51, "marching")])
def test_states_of_many_numbers_are_marched(rank, branch):
    recipe = Recipe.from_dict(SMALL).changed({"model.branch": "auto", "model.rank": {"t": 4, "x": rank}})
    resolved, _ = resolve_auto(Front(), recipe)
    assert resolved.model.branch == branch
    for problem in (AllenCahn(), Wall()):
        assert resolve_auto(problem, recipe)[0].model.branch == "gated"
    assert resolve_auto(Reaction(), recipe)[0].model.branch == branch


@pytest.fixture(scope="module")
def step():
    return prepare(Front(), Recipe.from_dict(SMALL))


@pytest.fixture(scope="module")
def trained(step):
    """The model after all steps, and the losses of the first and of the last one."""
    state, first = step.run(step.start(), 1)
    state, last = step.run(state, 199)
    return step.model(state), float(first.loss), float(last.loss)


def test_it_learns_and_its_scales_are_those_of_states(step, trained):
    sizes = np.asarray(step.model(step.start()).branch.increments())
    assert np.all(np.diff(sizes) > 0), "a state changes more and more in a window"
    _, first, last = trained
    assert last < 0.1 * first


def test_resumed_equals_uninterrupted(step):
    whole, _ = step.run(step.start(), 12)
    part, _ = step.run(step.start(), 5)
    # As a checkpoint keeps it: numbers alone.
    kept = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)) if eqx.is_array(leaf) else leaf, part)
    rest, _ = step.run(kept, 7)
    assert same(whole, rest)


def test_saved_and_frozen_it_predicts_the_same(tmp_path, trained):
    operator = seponet.Operator(trained[0])
    operator.save(tmp_path / "run")
    loaded = seponet.load(tmp_path / "run", problem=Front)
    u = np.asarray(operator.model.encode(Front().sample(KEY, 2))["u"])
    points: dict[str, Any] = {"t": np.linspace(0, 1, 5), "x": np.linspace(0, 1, 7) ** 1.2}
    expected = operator.predict(u, **points).to_numpy()
    np.testing.assert_array_equal(loaded.predict(u, **points).to_numpy(), expected)
    np.testing.assert_allclose(run_numpy(freeze(operator, points), {"u": u})["s"], expected, atol=1e-5)
