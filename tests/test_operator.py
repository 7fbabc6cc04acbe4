"""The trained operator: what it returns, for what it is given, in which memory; gradients, errors."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
import zoo

from seponet import Derived, Domain, Grid, Periodic, Problem, Value, nn
from seponet.calculus import evaluate as calculus
from seponet.calculus.collocation import make_collocation
from seponet.equations.symbols import Symbol
from seponet.functions import Functions, SpectralField
from seponet.operator.operator import Operator
from seponet.runs.train import train
from seponet.training.recipe import Recipe


class Burgers(Problem):
    nu: float = 0.05
    domain = Domain(t=(0, 1), x=Periodic(0, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=625.0, tau=5.0, gamma=4.0)}
    conditions = [Value({"t": 0}, equals="u")]

    def equation(self, s, s_t, s_x, s_xx):
        return s_t + s * s_x - self.nu * s_xx


KEY = jax.random.key(0)
SMALL: dict[str, Any] = {
    "rank": 4,
    "trunk_width": 6,
    "trunk_depth": 1,
    "branch_width": 6,
    "branch_depth": 1,
    "sensors": 16,
}
T, X = np.linspace(0, 1, 5), np.linspace(0, 1, 7)


def make(problem: Problem, **changes) -> Any:
    return Operator(nn.build(problem, key=KEY, **(SMALL | changes)))


def classical(problem: Problem, rank: dict[str, int], **changes) -> Any:
    return make(problem, decoder="tucker", rank=rank, trunk="classical", zero_last=True, **({"exact": "all"} | changes))


@pytest.fixture(scope="module")
def burgers() -> Any:
    return make(Burgers(), exact="all")


@pytest.fixture(scope="module")
def reactor() -> Any:
    return make(zoo.Reactor(), exact=("t",), sensors=8)


def wave(x):
    return 0.3 * np.sin(2 * np.pi * x) - 0.1 * np.cos(6 * np.pi * x)


def test_predictions_are_labelled_and_equal_the_calculus():
    operator = make(zoo.Brusselator(), exact=("t",))
    inputs = operator.problem.sample(KEY, 3)
    made = operator.predict(inputs, t=T, x=X)
    assert made["p"].dims == ("function", "t", "x")
    np.testing.assert_array_equal(made["p"].x, X)
    where = Grid.of(operator.problem.domain, {"t": jnp.asarray(T), "x": jnp.asarray(X)})
    for name in ("p", "q"):
        symbol = Symbol("field", name)
        expected = jax.jit(lambda u, s=symbol: calculus.evaluate(operator.model, u, where, [s])[s])(inputs)
        # Fields of order one, from two programs: where they cross zero, the round-off of their terms remains.
        np.testing.assert_allclose(made[name], expected, rtol=1e-12, atol=1e-14)
    chosen = operator.predict(inputs, field="q", t=T, x=X)
    assert chosen.name == "q"
    np.testing.assert_array_equal(chosen, made["q"])
    derived = operator.predict(inputs, derivative=("p_x", "q_t"), t=T, x=X)
    assert set(derived) == {"p_x", "q_t"}


def test_all_ways_to_give_a_function_agree(burgers):
    sensors, other = np.arange(16) / 16, np.arange(23) / 23
    closed = np.linspace(0, 1, 12)
    many = np.stack([wave(sensors), wave(2 * sensors)])
    expected = burgers.predict(wave, t=T, x=X)
    assert expected.dims == ("t", "x")
    np.testing.assert_allclose(expected.sel(t=0), wave(X), atol=1e-12)
    labelled = xr.DataArray(np.stack([wave(closed)] * 2, axis=1), {"x": closed}, ("x", "case"))
    for given in (wave(sensors), wave(other), labelled[:, 0]):
        np.testing.assert_allclose(burgers.predict(given, t=T, x=X), expected, atol=1e-11)
    both = burgers.predict([wave, lambda x: wave(2 * x)], t=T, x=X)
    assert both.dims == ("function", "t", "x")
    np.testing.assert_allclose(burgers.predict({"u": many}, t=T, x=X), both, atol=1e-11)
    np.testing.assert_allclose(burgers.predict(labelled, t=T, x=X)[1], expected, atol=1e-11)


def test_numbers_vectors_and_several_inputs(reactor):
    given = {"u": lambda x: x**2, "v": lambda t, x: t * x, "nu": 0.05}
    one = reactor.predict(given, t=T, x=X)
    many = reactor.predict(given | {"nu": [0.05, 0.1]}, t=T, x=X)
    np.testing.assert_allclose(many[0], one, rtol=1e-12, atol=1e-14)
    assert float(abs(many[1] - one).max()) > 1e-6
    heat = make(zoo.AnisotropicHeat(), exact="all")
    places = {"t": 0.5, "x": X, "y": 0.2, "z": 0.1}
    assert heat.predict([[0.2, 0.3, 0.4]], **places).dims == ("function", "x")


def test_points_are_the_grid_and_numbers_drop_axes(burgers):
    grid = burgers.predict(wave, t=T, x=X)
    mesh_t, mesh_x = (m.reshape(-1) for m in np.meshgrid(T, X, indexing="ij"))
    points = burgers.predict(wave, t=mesh_t, x=mesh_x, points=True)
    assert points.dims == ("point",)
    np.testing.assert_array_equal(points.coords["x"], mesh_x)
    np.testing.assert_allclose(points, grid.to_numpy().reshape(-1), rtol=1e-10)
    last = burgers.predict(wave, t=1.0, x=X)
    assert last.dims == ("x",)
    assert last.coords["t"] == 1.0
    np.testing.assert_allclose(last, grid.sel(t=1), rtol=1e-12, atol=1e-14)
    assert burgers.predict([wave], t=1.0, x=X, points=True).shape == (1, 7)


def test_derivatives_match_differences(burgers):
    h = 1e-4
    near = burgers.predict(wave, t=0.5, x=[0.3 - h, 0.3, 0.3 + h]).to_numpy()
    made = burgers.predict(wave, derivative=("s_x", "s_xx"), t=0.5, x=0.3)
    assert float(made["s_x"]) == pytest.approx((near[2] - near[0]) / (2 * h), rel=1e-6)
    assert float(made["s_xx"]) == pytest.approx((near[2] - 2 * near[1] + near[0]) / h**2, rel=1e-4)


@pytest.mark.parametrize(("kind", "points"), [("cp", False), ("tucker", True)])
def test_chunks_change_nothing(kind, points):
    operator = make(Burgers(), exact="all", decoder=kind)
    inputs = operator.problem.sample(KEY, 5)
    places = {"t": np.linspace(0, 1, 40), "x": np.linspace(0, 0.9, 40)}
    whole = operator.predict(inputs, points=points, **places)
    memory = 2000 if points else 40_000
    evaluator = operator.compile(points=points, memory=memory, **places)
    np.testing.assert_allclose(evaluator(inputs), whole, rtol=1e-10, atol=1e-13)
    functions, rows = evaluator._chunks[5]
    assert functions < 5 or points
    assert rows < 40


def test_a_new_input_needs_no_trunk_and_no_compilation(burgers, monkeypatch):
    places = {"t": T, "x": X[1:]}
    one = burgers.predict(wave(np.arange(16) / 16), **places)
    monkeypatch.setattr(nn.SepONet, "basis_values", None)
    other = burgers.predict(wave(np.arange(16) / 8), **places)
    assert float(abs(one - other).max()) > 0.1
    assert burgers.compile(**places)._compiled._cache_size() == 1


def test_residuals_are_root_mean_squares_of_the_terms(reactor):
    inputs = reactor.problem.sample(KEY, 3)
    nodes = {"t": 6, "x": 5}
    made = reactor.residual(inputs, nodes=nodes)
    assert list(made) == list(reactor.term_names)
    assert len(made) == 3
    collocation = make_collocation(reactor.model, tuple(nodes.items()))
    values = jax.jit(lambda u: calculus.residuals(reactor.model, u, collocation.where))(inputs)
    t, x = (np.asarray(w) for w in collocation.weights)
    expected = np.sqrt(np.einsum("ftx,t,x->f", np.asarray(values["equation"]) ** 2, t, x))
    np.testing.assert_allclose(made["equation"], expected, rtol=1e-12)
    np.testing.assert_allclose(made["x=0"], np.sqrt(np.asarray(values["x=0"])[:, :, 0] ** 2 @ t), rtol=1e-12)
    chunked = reactor.residual(inputs, nodes=nodes, memory=1000)
    xr.testing.assert_allclose(chunked, made, rtol=1e-10)


def test_basis_functions_satisfy_their_conditions():
    basis = classical(zoo.Brusselator(), {"t": 5, "x": 6}).basis(11)
    assert basis["x"].sizes == {"field": 2, "k": 6, "x": 11}
    assert float(abs(basis["t"].isel(t=0)).max()) < 1e-12
    assert float(abs(basis["x"].sel(field="p").isel(x=[0, -1])).max()) < 1e-10
    assert float(abs(basis["x"].sel(field="q").isel(x=0)).max()) > 0.1
    joint = make(zoo.Brusselator(), kind="deeponet").basis(4)
    assert joint["t,x"].dims == ("field", "k", "t", "x")


def test_gradients_with_respect_to_the_input(burgers):
    values = jnp.asarray(wave(np.arange(16) / 16))
    evaluator = burgers.compile(t=T, x=X)
    np.testing.assert_allclose(evaluator.evaluate(values), burgers.predict(values, t=T, x=X), rtol=1e-10)

    @jax.jit
    def misfit(values):
        return jnp.sum(jnp.asarray(burgers.evaluate(values, t=T, x=X)) ** 2)

    gradient = jax.grad(misfit)(values)
    for direction in (0, 5, 11):
        h = 1e-5 * jnp.eye(16)[direction]
        difference = (misfit(values + h) - misfit(values - h)) / 2e-5
        assert float(gradient[direction]) == pytest.approx(float(difference), rel=1e-7)
    # Through the lift alone, s(0, x) = u(x).
    jacobian = jax.jit(jax.jacobian(lambda v: burgers.evaluate(v, t=0.0, x=np.arange(16) / 16)))(values)
    np.testing.assert_allclose(jacobian, np.eye(16), atol=1e-10)


def test_a_view_that_is_first_asked_for_under_jit_serves_later_calls():
    operator = make(Burgers(), exact="all", sensors=16)
    values = jnp.asarray(wave(np.arange(16) / 16))
    traced = jax.jit(lambda v: operator.evaluate(v, t=T, x=X))(values)
    np.testing.assert_allclose(operator.predict(values, t=T, x=X), traced, rtol=1e-10)


def test_problems_without_inputs():
    operator = make(zoo.Plate(), exact="all", decoder="tucker")
    made = operator.predict(x=X, y=X)
    assert made.dims == ("x", "y")
    assert float(abs(made.sel(x=[0, 1])).max()) < 1e-12


NAN = np.full(16, np.nan)
WRONG = {
    "outside": ({"t": [0.5, 1.5]}, wave, r"'t' must lie in \[0, 1\]; got 1.5"),
    "nan place": ({"t": np.nan}, wave, "must lie in"),
    "empty": ({"t": []}, wave, "must be a number or a list"),
    "text place": ({"x": "left"}, wave, "must be numbers; got str"),
    "matrix": ({"x": np.zeros((2, 2))}, wave, r"shape \(2, 2\)"),
    "unknown axis": ({"y": 0.5}, wave, "axes t, x; got"),
    "nan input": ({}, NAN, "must be finite; got nan in function 0"),
    "rank": ({}, np.zeros((2, 3, 16)), r"\[x\] or \[functions, x\]"),
    "no input": ({}, None, "the inputs are u; got none"),
    "unknown input": ({}, {"v": wave}, "the inputs are u; got v"),
    "text": ({}, "wave", "must be an array of numbers"),
    "callable": ({}, lambda x: x[:3], "must return the shape"),
    "dims": ({}, xr.DataArray(np.zeros((4, 5)), dims=("a", "b")), "at most one more"),
    "field": ({"field": "r"}, wave, "the fields are s"),
    "derivative": ({"derivative": "s_y"}, wave, "the axes are t, x"),
    "not a field": ({"derivative": "u_x"}, wave, "not a derivative of s"),
    "ragged points": ({"points": True}, wave, "as many coordinates along every axis"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_one_sentence(burgers, name):
    changes, given, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        burgers.predict(given, **({"t": T, "x": X} | changes))


def test_mistakes_elsewhere(burgers, reactor):
    with pytest.raises(ValueError, match="same number of functions, or for one; got 2 of u, 3 of nu"):
        reactor.predict({"u": np.ones((2, 8)), "v": lambda t, x: t, "nu": [1, 2, 3]}, t=T, x=X)
    with pytest.raises(ValueError, match="at its sensors"):
        burgers.evaluate(jnp.zeros(17), t=T, x=X)
    with pytest.raises(ValueError, match="nodes must give a positive number"):
        burgers.residual(wave, nodes={"t": 5})
    foreign = SpectralField(Domain(x=(0, 1)), sigma=1.0, tau=1.0, gamma=2.0).sample(KEY, 2)
    with pytest.raises(ValueError, match="got functions with"):
        burgers.predict(foreign, t=T, x=X)


class Growth(Problem):
    r"""$s_t = g$ with $g = 2u$ derived from the input, $s(0, x) = u$: $s = (1 + 2t) u$."""

    domain = Domain(t=(0, 1), x=Periodic(0, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=20.0, tau=3.0, gamma=4.0, modes=2)}
    derived = {"g": Derived(inputs["u"], lambda inputs: Functions(inputs["u"].space, 2 * inputs["u"].parameters))}
    conditions = [Value({"t": 0}, equals="u")]

    def equation(self, s_t, g):
        return s_t - g


def test_a_derived_function_in_an_equation_works_wherever_residuals_are_taken():
    problem = Growth()
    # Nothing is learned, and the lift is u: the residual is -2u.
    operator = classical(problem, {"t": 3, "x": 5})
    sample = problem.sample(KEY, 2)
    u = sample["u"](Grid.of(problem.domain["x"], {"x": jnp.asarray(X)}))
    rms = operator.residual({"u": sample["u"]})["equation"]
    np.testing.assert_allclose(rms, 2 * jnp.sqrt(jnp.sum(sample["u"].parameters ** 2, axis=1)), rtol=1e-5)
    solved = operator.solve({"u": sample["u"]}, 1e-5, t=T, x=X)
    expected = (1 + 2 * T[:, None]) * np.asarray(u)[:, None]
    np.testing.assert_allclose(solved, expected, atol=1e-5 * np.abs(expected).max())
    # One function, and a sample that brings the derived one along.
    assert operator.residual(wave)["equation"].shape == ()
    np.testing.assert_array_equal(operator.residual(sample)["equation"], rms)
    np.testing.assert_array_equal(operator.predict(sample, t=T, x=X), operator.predict(sample["u"], t=T, x=X))
    with pytest.raises(ValueError, match="the inputs are u; got u, g"):
        operator.predict({"u": wave, "g": wave}, t=T, x=X)


def test_what_is_derived_follows_anew_in_every_window():
    """s = u at all times in an untrained operator, so in every window the equation is off by 2u; after a `restart` that
    doubles u, by twice that."""

    class Doubling(Growth):
        def restart(self, inputs, end):
            return {**inputs, "u": self.inputs["u"].fit(2 * end["s"])}

    operator = classical(Doubling(), {"t": 3, "x": 5})
    solution = operator.advance(lambda x: np.sin(2 * np.pi * x), residual=True, t=[0.5, 1.5, 2.5], x=X)
    first, second, third = solution["residual equation"].to_numpy()
    np.testing.assert_allclose([second, third], [2 * first, 4 * first], rtol=1e-4)


def test_a_derived_function_in_an_equation_is_trained_with_and_evaluated():
    recipe = Recipe.from_dict({"model": SMALL | {"exact": "all"}, "train": {"steps": 2, "functions": 2}})
    operator: Any = train(Growth, recipe, quiet=True)
    assert np.all(np.isfinite(operator.residual(wave)["equation"]))
    values = wave(np.arange(16) / 16)
    np.testing.assert_allclose(operator.evaluate(values, t=T, x=X), operator.predict(values, t=T, x=X), atol=1e-6)
