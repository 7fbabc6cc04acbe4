"""Exact conditions hold to round-off for random weights, in every model."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import AllenCahn, AnisotropicHeat, Brusselator, KdV, Pendulum, Plate, Wave, quick_jit, random_grid, small

from seponet import Domain, Interval, Periodic, Problem, Residual, Robin, Value
from seponet.calculus.evaluate import evaluate, residuals
from seponet.calculus.projectors import Projector
from seponet.derivatives import Trace
from seponet.equations.symbols import Symbol
from seponet.problems import AdvectionInformed


@dataclasses.dataclass
class Conditions:
    """A problem, or a model of it, asked for all its conditions: also for those that hold by construction."""

    of: Any
    exact: tuple[str, ...] = ()

    def terms(self, exact):
        return [term for term in self.of.terms() if term.face is not None]

    @property
    def problem(self):
        return Conditions(self.of.problem)

    def __getattr__(self, name):
        return getattr(self.of, name)


def conditions_of(model: Any) -> Any:
    return Conditions(model)


MODELS = {
    "cp": {},
    "tucker": {"decoder": "tucker", "trunk": "classical", "rank": 6},
    "deeponet": {"kind": "deeponet"},
}


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        (Wave, "cp"),  # value and slope at t = 0, Dirichlet
        (Wave, "tucker"),
        (Wave, "deeponet"),
        (AllenCahn, "cp"),  # data made of u and x, Neumann
        (AllenCahn, "tucker"),
        (AnisotropicHeat, "cp"),  # Robin, Neumann, Dirichlet, periodic
        (AnisotropicHeat, "tucker"),
        (KdV, "cp"),  # periodic to third order
        (KdV, "tucker"),
        (KdV, "deeponet"),
        (Brusselator, "cp"),  # two fields, with conditions of their own
        (Brusselator, "deeponet"),
        (Plate, "tucker"),  # value and slope at both ends
        (AdvectionInformed, "tucker"),  # a known part that satisfies no condition
    ],
)
def test_exact_conditions_hold_to_round_off(kind, model):
    problem = kind()
    made, grid = small(problem, exact="all", **MODELS[model]), random_grid(problem, (3, 4, 2, 2))
    fields = [Symbol("field", name) for name in problem.fields]

    @quick_jit
    def run(made, inputs, grid):
        conditions = residuals(conditions_of(made), inputs, grid)
        others = jax.tree.map(lambda weight: 2 * weight, made)
        return conditions, *(list(evaluate(m, inputs, grid, fields).values()) for m in (made, others))

    conditions, values, other_values = run(made, problem.sample(jax.random.key(0), 3), grid)
    assert len(conditions) == len(problem.terms()) - len(problem.equations)
    for name, residual in conditions.items():
        # The slopes of a classical basis at the ends of its axis are large, and so is the round-off of their sums.
        slope = name.startswith(("derivative", "robin"))
        assert np.abs(residual).max() < (5e-12 if slope else 1e-12), name
    # It is not for want of a network: other weights give other functions.
    assert all(np.abs(v - w).max() > 1e-4 for v, w in zip(values, other_values, strict=True))


@pytest.mark.parametrize("model", MODELS)
def test_only_the_chosen_axes_are_exact(model):
    problem = Wave()
    config = MODELS[model] if model != "tucker" else {"decoder": "tucker", "trunk": "legendre", "rank": 6}
    run = quick_jit(lambda m, inputs, grid: residuals(conditions_of(m), inputs, grid))
    found = run(
        small(problem, exact=("x",), **config), problem.sample(jax.random.key(0), 3), random_grid(problem, (3, 4))
    )
    largest = {name: np.abs(residual).max() for name, residual in found.items()}
    assert max(largest["x=0"], largest["x=1"]) < 1e-12
    assert min(largest["t=0"], largest["derivative t=0"]) > 1e-2


class InitialFirst(Problem):
    domain = Domain(t=(0, 1), x=(0, 1))
    conditions = [Value({"t": 0}, equals=lambda x: 1 + x), Value({"x": (0, 1)})]

    def equation(self, s_t, s_xx):
        return s_t - s_xx


class WallFirst(InitialFirst):
    conditions = InitialFirst.conditions[::-1]


@pytest.mark.parametrize("model", MODELS)
def test_where_data_disagree_at_a_corner_the_condition_declared_first_wins(model):
    """s(0, x) = 1 + x against s = 0 on both walls."""
    grid = random_grid(InitialFirst(), (3, 4))
    t, x = np.asarray(grid["t"]), np.asarray(grid["x"])
    run = quick_jit(lambda *made: [residuals(conditions_of(m), {}, grid) for m in made])
    initial, wall = run(*(small(kind(), exact="all", **MODELS[model]) for kind in (InitialFirst, WallFirst)))
    np.testing.assert_allclose(initial["t=0"], 0, atol=1e-13)
    # The walls keep their initial values, 1 and 2.
    np.testing.assert_allclose(initial["x=0"][0, :, 0], np.ones_like(t), atol=1e-13)
    np.testing.assert_allclose(initial["x=1"][0, :, 0], 2 * np.ones_like(t), atol=1e-13)
    np.testing.assert_allclose(wall["x=0"], 0, atol=1e-13)
    np.testing.assert_allclose(wall["x=1"], 0, atol=1e-13)
    # What is left of 1 + x when the walls have taken (1 - x) 1 + x 2 away is nothing.
    np.testing.assert_allclose(wall["t=0"][0, 0], -(1 + x), atol=1e-13)


def test_a_residual_on_a_face_stays_soft():
    class Radiating(InitialFirst):
        conditions = [Value({"t": 0}), Value({"x": 0}), Residual({"x": 1}, lambda s, s_x: s_x + s**4)]

    assert [term.name for term in Radiating().terms(small(Radiating(), exact="all").exact)] == [
        "equation",
        "x=1 residual",
    ]


@pytest.mark.parametrize(
    "traces",
    [
        (Trace(0.0, (1.0,)),),
        (Trace(2.0, (0.0, 1.0)), Trace(5.0, (0.0, 1.0))),
        (Trace(2.0, (1.0,)), Trace(2.0, (0.0, 1.0)), Trace(5.0, (1.0,)), Trace(5.0, (0.0, 0.0, 1.0))),
        (Trace(2.0, (-2.0, 1.0)), Trace(5.0, (0.3, 1.0))),
        (Trace(3.0, (0.0, 0.0, 0.0, 1.0)),),
    ],
)
def test_the_polynomials_are_dual_to_the_traces(traces):
    projector = Projector("x", Interval(2.0, 5.0), traces)
    for i, trace in enumerate(traces):
        derivatives: list[Any] = [projector.duals(jnp.asarray([trace.at]), m) for m in range(trace.order + 1)]
        for j in range(len(traces)):
            at = [0.0 if d[j] is None else float(d[j][0]) for d in derivatives]
            assert np.dot(trace.weights, at) == pytest.approx(float(i == j), abs=1e-13)


def test_a_repeated_condition_is_named():
    class Twice(InitialFirst):
        conditions = [Value({"t": 0}), Value({"x": (0, 1)}), Robin({"x": 0}, value=2.0, derivative=0.0)]

    with pytest.raises(ValueError, match=r"x = 0, x = 1, x = 0 can't all be imposed exactly.*softly"):
        small(Twice(), exact="all")


@pytest.mark.parametrize("traces", [(Trace(0.0, (0.0, 1.0)),), (Trace(0.0, (1.0,)), Trace(0.5, (1.0,)))])
def test_conditions_that_would_break_periodicity_are_named(traces):
    with pytest.raises(ValueError, match=r"periodic axis x can't be imposed exactly.*softly"):
        Projector("x", Periodic(0, 1), traces)


def test_one_value_on_a_periodic_axis_is_compatible():
    class Pinned(Problem):
        """s_xx = 0 on a circle: one value for each t pins the constant that the equation leaves open."""

        domain = Domain(t=(0, 1), x=Periodic(0, 1))
        conditions = [Value({"x": 0}, equals=lambda t: t)]

        def equation(self, s_xx):
            return s_xx

    run = quick_jit(lambda m, grid: residuals(conditions_of(m), {}, grid))
    found = run(small(Pinned(), exact="all"), random_grid(Pinned(), (3, 4)))
    assert found.keys() == {"x=0", "x periodic", "x periodic s_x"}
    assert all(np.abs(residual).max() < 1e-12 for residual in found.values())


@pytest.mark.parametrize(
    ("kind", "exact", "sentence"),
    [
        (Wave, ("y",), "no axis 'y'; the axes are t, x"),
        (Pendulum, "x", "no axis 'x'"),
        (KdV, ("x",), None),
    ],
)
def test_exact_axes_must_exist(kind, exact, sentence):
    if sentence is None:
        assert small(kind(), exact=exact).exact == exact
    else:
        with pytest.raises(ValueError, match=sentence):
            small(kind(), exact=exact)


def test_an_axis_without_a_linear_condition_cant_be_exact():
    class Free(InitialFirst):
        conditions = [Value({"t": 0}), Residual({"x": (0, 1)}, lambda s, s_x: s_x - s**2)]

    with pytest.raises(
        ValueError, match=r"exact names the axis 'x', which has no condition.*that do are t \(a Residual"
    ):
        small(Free(), exact=("t", "x"))
    assert small(Free(), exact="all").exact == ("t",)
