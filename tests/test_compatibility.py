"""Conditions that contradict each other are found, measured and told; one of two such axes becomes soft."""

import logging
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_exact_conditions import conditions_of
from zoo import LINE, ZOO, AllenCahn, KdV, Poisson, Wave, quick_jit, random_grid, small

import seponet
from seponet import Derivative, Domain, Periodic, Problem, Residual, Robin, Value, nn
from seponet.calculus.compatibility import choose_exact, compatible_axes, disagreements
from seponet.calculus.evaluate import residuals
from seponet.functions import GaussianField, Scalar, SpectralField
from seponet.problems import PROBLEMS
from seponet.training.exactness import resolve_exact
from seponet.training.recipe import Recipe


def found_in(problem: Problem, count: int = 4) -> Any:
    return disagreements(problem, problem.sample(jax.random.key(0), count))


def chosen_for(problem: Problem) -> tuple[str, ...]:
    return choose_exact(problem, problem.sample(jax.random.key(0), 4))[0]


class Cooling(Problem):
    """s(0, x) = 3 against s = 1 and s_x = 0.5 at the walls of a long axis."""

    domain = Domain(t=(0, 2), x=(0, 4))
    conditions = [Value({"t": 0}, equals=3.0), Value({"x": 0}, equals=1.0), Derivative({"x": 4}, equals=0.5)]

    def equation(self, s_t, s_xx):
        return s_t - s_xx


class Scaled(Cooling):
    inputs = {"a": Scalar(-2.0, 2.0)}
    conditions = [Value({"t": 0}, equals=lambda a: 3 * a), Value({"x": (0, 4)}, equals=lambda a: a)]


class FisherKPP(Problem):
    """The input has slopes at the insulated walls."""

    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {"u": GaussianField(domain["x"], length_scale=0.3, variance=0.3)}
    conditions = [Value({"t": 0}, equals=lambda u: jnp.exp(u) / 4), Derivative({"x": (0, 1)})]

    def equation(self, s, s_t, s_xx):
        return s_t - 0.01 * s_xx - 3 * s * (1 - s)


def test_the_size_is_relative_to_the_data_and_slopes_count_over_the_length_of_their_axis():
    slope, value = sorted(found_in(Cooling()), key=lambda d: d.conditions[1])
    # 3 against 1, relative to 3; a slope of 0 against 0.5, times the length 4, relative to 3.
    assert (value.conditions, value.edge) == (("t=0", "x=0"), (("t", 0.0), ("x", 0.0)))
    assert value.mean == pytest.approx(2 / 3, rel=1e-12)
    assert (slope.conditions, slope.edge) == (("t=0", "derivative x=4"), (("t", 0.0), ("x", 4.0)))
    assert slope.mean == pytest.approx(0.5 * 4 / 3, rel=1e-12)


def test_the_size_does_not_depend_on_the_amplitude_of_a_function():
    both = found_in(Scaled(), 16)
    assert len(both) == 2
    assert all(d.mean == pytest.approx(2 / 3, rel=1e-9) == d.largest for d in both)


def test_a_disagreement_is_one_sentence():
    slope, value = sorted(found_in(Cooling()), key=lambda d: d.conditions[1])
    assert str(value) == (
        '"t=0" and "x=0" contradict each other where t = 0 and x = 0: they differ by 67%, relative to the size of s'
    )
    assert str(slope).endswith("relative to the size of s and the length of x")
    varying = re.escape("where t = 0 and x = 0: they differ by ")
    varying += r"[\d.]+% on average over sampled inputs and [\d.]+% at most, relative to"
    assert any(re.search(varying, str(d)) for d in found_in(FisherKPP()))


def test_slopes_of_inputs_at_an_insulated_wall_are_those_of_the_input():
    problem = FisherKPP()
    inputs = problem.sample(jax.random.key(3), 5)
    found = {d.conditions[1]: d for d in disagreements(problem, inputs)}
    x = jnp.linspace(0.0, 1.0, 2001)
    u = seponet.functions.as_callable(inputs["u"])(np.asarray(x))
    slopes = seponet.functions.as_callable(inputs["u"], (("x", 1),))(np.asarray(x))
    state = np.exp(u) / 4
    size = np.sqrt(np.trapezoid(state**2, x, axis=1))
    for name, end in (("derivative x=0", 0), ("derivative x=1", -1)):
        expected = np.abs(state * slopes)[:, end] / size
        assert found[name].mean == pytest.approx(np.mean(expected), rel=1e-5)
        assert found[name].largest == pytest.approx(np.max(expected), rel=1e-5)


def test_the_disagreement_is_what_a_lift_gets_wrong_along_the_whole_face():
    problem = FisherKPP()
    inputs, grid = problem.sample(jax.random.key(3), 5), random_grid(problem, (3, 4))
    wrong = quick_jit(lambda m: residuals(conditions_of(m), inputs, grid))(small(problem, exact="all"))
    for d in disagreements(problem, inputs):
        on_face = np.abs(wrong[d.conditions[1]][:, :, 0])
        assert np.ptp(on_face, axis=1).max() < 1e-12
        state = np.exp(np.asarray(inputs["u"](random_grid(problem, (1, 4000)).fix("t", 0.0)))) / 4
        size = np.sqrt(np.mean(state**2, axis=(1, 2)))
        assert np.mean(on_face[:, 0] / size) == pytest.approx(d.mean, rel=0.03)


@pytest.mark.parametrize("kind", [*ZOO, *PROBLEMS.values()], ids=lambda kind: kind.__name__)
def test_what_is_shipped_is_compatible(kind):
    problem = kind()
    axes, contradictions = choose_exact(problem, problem.sample(jax.random.key(0), 4))
    assert contradictions == []
    assert axes == nn.build(problem, exact="all", rank=2, sensors=2, key=jax.random.key(0)).exact


def test_inputs_in_single_precision_are_compatible_too():
    with jax.enable_x64(False):
        inputs = {kind: kind().sample(jax.random.key(0), 4) for kind in (Wave, AllenCahn)}
    assert {leaf.dtype.name for leaf in jax.tree.leaves(inputs[Wave])} == {"float32"}
    assert all(disagreements(kind(), functions) == [] for kind, functions in inputs.items())


class Heat2D(Problem):
    """Walls that keep what is given there, but for one corner of the plane."""

    domain = Domain(t=(0, 1), x=(0, 1), y=(0, 1))
    inputs = {"u": GaussianField(domain["x", "y"], length_scale=0.5)}
    conditions = [
        Value({"t": 0}, equals="u"),
        Value({"x": (0, 1)}, equals="u"),
        Value({"y": 0}, equals="u"),
        Value({"y": 1}, equals=lambda u, x: u + x),
    ]

    def equation(self, s_t, s_xx, s_yy):
        return s_t - s_xx - s_yy


def test_edges_in_the_plane():
    found = {d.conditions: d for d in found_in(Heat2D())}
    # At y = 1 the data are off by x: along the edge with the initial state, and in the corner x = 1.
    assert found.keys() == {("t=0", "y=1"), ("x=1", "y=1")}
    ratio = found["t=0", "y=1"].mean / found["x=1", "y=1"].mean
    assert ratio == pytest.approx(1 / np.sqrt(3), rel=1e-9)
    assert chosen_for(Heat2D()) == ("t", "x")


def test_derivatives_of_both_data_are_compared():
    class Driven(Cooling):
        # s = sin(x) e^t has all of these.
        conditions = [
            Value({"t": 0}, equals=lambda x: jnp.sin(x)),
            Derivative({"t": 0}, equals=lambda x: jnp.sin(x)),
            Robin({"x": 0}, value=2.0, derivative=3.0, equals=lambda t: 3 * jnp.exp(t)),
            Derivative({"x": 4}, order=2, equals=lambda t: -jnp.sin(4.0) * jnp.exp(t)),
        ]

    class Late(Driven):
        conditions = [
            *Driven.conditions[:3],
            Derivative({"x": 4}, order=2, equals=lambda t: -jnp.sin(4.0) * (1 + t**2)),
        ]

    assert found_in(Driven()) == []
    # The value at t = 0 agrees, its rate does not.
    assert [d.conditions for d in found_in(Late())] == [("derivative t=0", "derivative 2 x=4")]


def test_an_implied_condition_counts():
    class Slope(FisherKPP):
        inputs = {"u": SpectralField(LINE, sigma=30.0, tau=3.0, gamma=4.0)}
        conditions = [
            Value({"t": 0}, equals="u"),
            Derivative({"t": 0}, equals=lambda u: u + 1.0, implied=True),
            Value({"x": (0, 1)}),
        ]

    assert {d.conditions for d in found_in(Slope())} == {("derivative t=0", "x=0"), ("derivative t=0", "x=1")}


def test_data_that_are_not_finite_at_an_edge_are_told():
    class Root(Cooling):
        conditions = [Value({"t": 0}, equals=lambda x: jnp.sqrt(x)), Derivative({"x": (0, 4)}, equals=0.25)]

    (only,) = found_in(Root())
    assert str(only).endswith("where t = 0 and x = 0: their data are not finite there")


@pytest.mark.parametrize(
    ("conditions", "exact"),
    [
        ([Value({"t": 0}, equals=1.0), Value({"x": (0, 4)})], ("t",)),
        ([Value({"x": (0, 4)}), Value({"t": 0}, equals=1.0)], ("t",)),  # one end before two ends
        ([Value({"t": 0}, equals=1.0), Value({"x": 0})], ("t",)),  # inflow: the first of two
        ([Value({"x": 0}), Value({"t": 0}, equals=1.0)], ("x",)),
        # A residual at the other end makes a wall of the axis.
        ([Value({"x": 0}), Residual({"x": 4}, lambda s, s_x: s_x + s**4), Value({"t": 0}, equals=1.0)], ("t",)),
        ([Value({"t": 0}, equals=1.0), Value({"x": (0, 4)}, equals=1.0)], ("t", "x")),
    ],
)
def test_which_axis_stays_exact(conditions, exact):
    kind = type("Chosen", (Cooling,), {"conditions": conditions, "__module__": __name__})
    assert chosen_for(kind()) == exact


def test_a_periodic_axis_stays_exact():
    class Ring(Cooling):
        domain = Domain(t=(0, 1), x=(0, 1), y=Periodic(0, 1))
        conditions = [Value({"t": 0}, equals=1.0), Value({"x": (0, 1)})]

    assert chosen_for(Ring()) == ("t", "y")
    assert chosen_for(KdV()) == ("t", "x")
    assert compatible_axes(Ring(), ("x", "t", "y"), found_in(Ring())) == ("x", "y")


def recipe(exact: Any) -> Recipe:
    return Recipe().changed({"model.exact": exact})


def test_auto_keeps_all_that_agree():
    for kind in (Wave, Poisson):
        assert resolve_exact(kind(), recipe("auto")).model.exact == "all"


def test_auto_makes_an_axis_soft_and_says_so(caplog):
    with caplog.at_level(logging.INFO, "seponet"):
        resolved = resolve_exact(FisherKPP(), recipe("auto"))
    assert resolved.model.exact == ("t",)
    (message,) = caplog.messages
    assert message.startswith("the conditions on x are imposed softly, because exact ones would be wrong along their")
    assert '"t=0" and "derivative x=' in message
    assert "(1 more like this)" in message
    assert "--set model.exact='[\"x\"]'" in message
    # What is resolved, and what the message proposes, is left as it is.
    assert all(resolve_exact(FisherKPP(), recipe(e)) == recipe(e) for e in (["t"], ["x"], "x", "none"))


@pytest.mark.parametrize("exact", ["all", ["t", "x"], ["x", "t"]])
def test_exact_conditions_that_contradict_are_refused_before_training(exact):
    with pytest.raises(ValueError, match=r'^model.exact = .* contradict each other: "t=0" and "deriv.*\["t"\].*x soft'):
        seponet.train(FisherKPP(), Recipe(), set={"model.exact": exact}, quiet=True)


def test_axes_that_agree_may_be_named_where_others_do_not():
    class Mixed(Heat2D):
        conditions = [*Heat2D.conditions[:3], Value({"y": 1}, equals=5.0)]

    assert resolve_exact(Mixed(), recipe(["t", "x"])) == recipe(["t", "x"])
    assert resolve_exact(Mixed(), recipe(["y"])) == recipe(["y"])
    assert resolve_exact(Mixed(), recipe("auto")).model.exact == ("t", "x")
    with pytest.raises(ValueError, match=r'set model.exact to \["x"\], which leaves y soft'):
        resolve_exact(Mixed(), recipe(["x", "y"]))


def test_a_model_wants_its_axes_by_name():
    with pytest.raises(
        ValueError, match='needs its exact axes: "all", "none" or a list of axes; "auto" is for recipes'
    ):
        small(FisherKPP(), exact="auto")
