"""Refinement: tested and strong residuals, nodes that see the input, and no function that gets worse."""

import inspect
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sparse
import scipy.sparse.linalg
import zoo

from seponet import Domain, Grid, Periodic, Problem, Value
from seponet._precision import double_precision
from seponet.calculus.collocation import make_collocation
from seponet.calculus.evaluate import evaluate
from seponet.calculus.model import FixedCoefficients
from seponet.discretise import Discretisation
from seponet.discretise.newton import newton
from seponet.equations.symbols import Symbol
from seponet.functions import SpectralField
from seponet.operator import gauss_newton, nodes
from seponet.operator.nodes import choose_nodes
from seponet.operator.operator import Operator
from seponet.operator.tested_newton import discretisation_of
from seponet.problems import Heat
from seponet.training.whitening import whiten


class Burgers(Problem):
    nu: float = 0.05
    domain = Domain(t=(0, 1), x=Periodic(0, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=625.0, tau=5.0, gamma=4.0)}
    conditions = [Value({"t": 0}, equals="u")]

    def equation(self, s, s_t, s_x, s_xx):
        return s_t + s * s_x - self.nu * s_xx


class Parallelogram(Problem):
    r"""$\Delta s = -1$ in a rhombus with angles of 60 and 120 degrees, in coordinates along its sides; s = 0 on these.

    At the wide corners s behaves as the distance to the power 3/2: its second derivatives are not bounded.
    """

    domain = Domain(x=(0, 1), y=(0, 1))
    conditions = [Value({"x": (0, 1)}), Value({"y": (0, 1)})]

    def equation(self, s_xx, s_xy, s_yy):
        return (s_xx + s_xy + s_yy) * 4 / 3 + 1.0


KEY = jax.random.key(0)
T, X = np.linspace(0, 1, 5), np.linspace(0, 1, 7)


def make(problem: Problem, **changes: Any) -> Any:
    return Operator(zoo.small(problem, **({"sensors": 16, "exact": "all"} | changes)))


def classical(problem: Problem, rank: dict[str, int], **changes: Any) -> Any:
    """An operator that has learned nothing: all coefficients are zero."""
    return make(problem, decoder="tucker", rank=rank, trunk="classical", zero_last=True, **changes)


def starting_from(operator: Any, coefficients: Any) -> Operator:
    """The same operator with given coefficients of one function."""
    bias = jnp.asarray(coefficients).reshape(-1)
    return Operator(eqx.tree_at(lambda m: m.branch.body.layers[-1].bias, operator.model, bias))


def whitened(operator: Operator, functions: int = 20) -> Any:
    model = operator.model
    inputs = operator.problem.sample(KEY, functions)
    collocation = make_collocation(model, tuple((name, 24) for name in operator.problem.domain))
    weights = jnp.ones((len(operator.term_names), functions)) / functions
    return Operator(whiten(model, inputs, collocation, weights, kind="diagonal"))


def wave(x):
    return 0.3 * np.sin(2 * np.pi * x) - 0.1 * np.cos(6 * np.pi * x)


def relative_error(predicted: Any, exact: np.ndarray) -> float:
    return float(np.linalg.norm(np.asarray(predicted) - exact) / np.linalg.norm(exact))


def cole_hopf(t, x, a=2.0):
    """An exact solution of Burgers' equation: s = -2 nu phi_x / phi with phi = a + exp(-k^2 nu t) cos(k x)."""
    k, nu = 2 * np.pi, Burgers().nu
    decay = np.exp(-(k**2) * nu * t)
    return 2 * nu * k * decay * np.sin(k * x) / (a + decay * np.cos(k * x))


def by_differences(n: int) -> np.ndarray:
    """The parallelogram's solution at (n - 1)^2 interior points, from second-order finite differences."""
    ones = np.ones(n - 1)
    diagonals: Any = sparse.diags
    second = diagonals([ones[1:], -2 * ones, ones[1:]], [-1, 0, 1]) * n**2
    first = diagonals([-ones[1:], ones[1:]], [-1, 1]) * n / 2
    one = sparse.identity(n - 1)
    laplacian = (sparse.kron(second, one) + sparse.kron(first, first) + sparse.kron(one, second)) * 4 / 3
    solution = scipy.sparse.linalg.spsolve(laplacian.tocsc(), -np.ones((n - 1) ** 2))
    return np.asarray(solution).reshape(n - 1, n - 1)


def test_tested_residuals_hold_corners_that_strong_ones_do_not():
    operator = classical(Parallelogram(), {"x": 10, "y": 10})
    places = np.arange(1, 20) / 20
    exact = by_differences(160)[7::8, 7::8]
    tested = relative_error(operator.refine().predict(x=places, y=places), exact)
    strong = relative_error(operator.refine(residual="strong").predict(x=places, y=places), exact)
    assert tested < 1e-3
    assert strong > 5 * tested


def test_tested_refinement_from_nothing_reaches_the_solution():
    inputs = [lambda x: cole_hopf(0, x), lambda x: cole_hopf(0, x, 3.0)]
    exact = np.stack([cole_hopf(T[:, None], X[None], a) for a in (2.0, 3.0)])
    # An even number of Fourier functions: a cosine without its sine.
    operator = classical(Burgers(), {"t": 9, "x": 20})
    discretisation = discretisation_of(operator.model)
    assert discretisation is not None
    assert discretisation.shape == (9, 20)
    # Little memory: one function at a time.
    refined = operator.refine(inputs, steps=6, memory=1000)
    assert relative_error(refined.predict(t=T, x=X), exact) < 1e-4
    one = operator.refine(inputs, steps=1, memory=1000)
    assert relative_error(refined.predict(t=T, x=X), exact) < 0.1 * relative_error(one.predict(t=T, x=X), exact)
    assert list(refined.before) == ["equation"]
    assert np.all(refined.after["equation"] < 1e-2 * refined.before["equation"])
    none = operator.refine(inputs, steps=0, memory=1000)
    np.testing.assert_allclose(none.after["equation"], refined.before["equation"])
    np.testing.assert_array_equal(none.coefficients, 0.0)


def test_soft_conditions_are_tested_rows():
    operator = classical(zoo.Poisson(), {"x": 12, "y": 12}, exact=("x",))
    y = np.linspace(0, 2, 6)
    refined = operator.refine(forcing, residual="tested")
    np.testing.assert_allclose(refined.predict(x=X, y=y), solution(X[:, None], y[None]), atol=1e-6)
    assert list(refined.after) == ["equation", "y=0", "y=2"]


def test_systems_are_tested_field_by_field():
    problem = zoo.Brusselator()
    operator = classical(problem, {"t": 8, "x": 10})
    inputs = problem.sample(KEY, 2)
    refined = operator.refine(inputs, steps=6, residual="tested").predict(t=T, x=X)
    start = operator.predict(inputs, t=T, x=X)
    fine = Discretisation.of(problem, ("t", "x"), {"t": 12, "x": 16})
    with double_precision():
        solved = newton(fine, (("t", 21), ("x", 40)), inputs, np.zeros((2, *fine.coefficient_shape())))
        where = Grid.of(problem.domain, {"t": jnp.asarray(T), "x": jnp.asarray(X)})
        symbols = [Symbol("field", field) for field in ("p", "q")]
        exact = evaluate(FixedCoefficients(fine, jnp.asarray(solved.coefficients)), inputs, where, symbols)
    assert np.all(solved.converged)
    for symbol in symbols:
        expected = np.asarray(exact[symbol])
        assert relative_error(refined[symbol.name], expected) < 0.02 * relative_error(start[symbol.name], expected)


def test_problems_without_inputs():
    refined = classical(zoo.Plate(), {"x": 12, "y": 12}).refine()
    assert float(refined.predict(x=0.5, y=0.5)) == pytest.approx(0.001265, rel=1e-3)  # Timoshenko's clamped plate


def solution(x, y):
    return np.sin(np.pi * x) * np.sin(np.pi * y / 2)


def forcing(x, y):
    return -1.25 * np.pi**2 * solution(x, y)


ROUGH = {1: 1.0, 3: 0.4, 37: 0.02}
"""Sines of an initial state, the last one beyond what nodes for the basis alone can see."""


def initial(x):
    return sum(a * np.sin(k * np.pi * x) for k, a in ROUGH.items())


def decayed(t, x):
    return sum(a * np.exp(-(k**2) * t) * np.sin(k * np.pi * x) for k, a in ROUGH.items())


@pytest.mark.parametrize("residual", ["tested", "strong"])
def test_rough_inputs_get_better_and_never_worse(residual, caplog):
    """An unseen sine is an alias of a low one, with the second derivative of a high one."""
    operator = classical(Heat(), {"t": 10, "x": 14}, sensors=80)
    blind = {"t": 18, "x": 24}
    exact = np.asarray(decayed(T[1:, None], X[None]))

    def error(refined: Any) -> float:
        return relative_error(refined.predict(t=T[1:], x=X), exact)

    refined = operator.refine(initial, residual=residual)
    assert not caplog.messages
    assert error(refined) < 0.1 * error(operator.refine(initial, residual=residual, nodes=blind))
    # From the better ones, nodes that do not see the input would lead away.
    caplog.clear()
    kept = starting_from(operator, refined.coefficients).refine(initial, residual=residual, nodes=blind)
    assert "the network's answer was kept for 1 of 1 functions" in caplog.text
    np.testing.assert_allclose(kept.coefficients, refined.coefficients, rtol=1e-12)
    assert float(kept.after["equation"]) == float(kept.before["equation"])


def test_nodes_see_the_inputs(caplog, monkeypatch):
    operator = classical(Heat(), {"t": 10, "x": 14}, sensors=80)

    def count(u: Any) -> dict[str, int]:
        return dict(choose_nodes(operator.model, operator.read_inputs(u)[0], (("t", 10), ("x", 14))))

    smooth, rough = count(lambda x: np.sin(np.pi * x)), count(initial)
    assert smooth == {"t": 20, "x": 28}
    assert rough["t"] == 20
    assert rough["x"] >= 14 + 37
    # The roughest of the functions counts, and nearby bandwidths share a program.
    assert count([np.sin, initial]) == rough
    assert count(lambda x: np.sin(39 * np.pi * x)) == rough
    # The residual on 28 nodes would be that of an alias, with another size.
    rms = float(operator.residual(initial)["equation"])
    squares = [(a * (k * np.pi) ** 2 / np.pi**2) ** 2 / 2 for k, a in ROUGH.items()]
    assert rms == pytest.approx(np.sqrt(np.sum(squares)), rel=1e-3)
    monkeypatch.setattr(nodes, "MOST", 700)
    assert count(initial)["x"] < rough["x"]
    assert f"the inputs ask for 20 x {rough['x']} nodes" in caplog.text


def test_other_models_are_refined_by_strong_residuals():
    inputs = Burgers().sample(KEY, 2)
    for config in ({}, {"decoder": "tucker", "trunk": {"t": "chebyshev", "x": "fourier"}}):
        operator = make(Burgers(), **config)
        assert discretisation_of(operator.model) is None
        refined = operator.refine(inputs)
        np.testing.assert_array_equal(refined.coefficients, operator.refine(inputs, residual="strong").coefficients)
        assert np.all(refined.after["equation"] < refined.before["equation"])
        with pytest.raises(ValueError, match='residual = "tested" needs a SepONet with a Tucker decoder'):
            operator.refine(inputs, residual="tested")


def test_which_models_have_a_discretisation():
    tucker: dict[str, Any] = {"decoder": "tucker", "trunk": "classical"}
    assert discretisation_of(zoo.small(Burgers(), exact="all", **tucker)) is not None
    assert discretisation_of(zoo.small(Burgers(), exact=("x",), **tucker)) is not None
    assert discretisation_of(zoo.small(Burgers(), exact=("t",), **tucker)) is None  # periodicity would be a soft row
    assert discretisation_of(zoo.small(Burgers(), exact="all", trunk="classical")) is None
    assert discretisation_of(zoo.small(Burgers(), exact="all", kind="deeponet")) is None
    # Two soft conditions along y leave one of three functions to test the equation with, and none of two.
    assert discretisation_of(zoo.small(zoo.Poisson(), exact=("x",), **tucker)) is not None
    assert discretisation_of(zoo.small(zoo.Poisson(), exact=("x",), rank=2, **tucker)) is None


def test_one_strong_step_solves_linear_problems_with_soft_conditions():
    operator = classical(zoo.Poisson(), {"x": 12, "y": 12}, exact=("x",))
    assert operator.term_names == ("equation", "y=0", "y=2")
    y = np.linspace(0, 2, 6)
    iterated = whitened(operator).refine(forcing, residual="strong")
    refined = operator.refine(forcing, residual="strong")
    for result in (iterated, refined):
        np.testing.assert_allclose(result.predict(x=X, y=y), solution(X[:, None], y[None]), atol=1e-6)
        assert float(result.after["equation"]) < 1e-6 * float(result.before["equation"])
    np.testing.assert_allclose(iterated.coefficients, refined.coefficients, atol=1e-6)
    slabs = operator.refine(forcing, residual="strong", memory=1_000_000)
    np.testing.assert_allclose(slabs.coefficients, refined.coefficients, atol=1e-9)


def test_gauss_newton_from_nothing_reaches_the_floor_of_the_basis():
    operator = classical(Burgers(), {"t": 9, "x": 21})
    inputs = [lambda x: cole_hopf(0, x), lambda x: cole_hopf(0, x, 3.0)]
    exact = np.stack([cole_hopf(T[:, None], X[None], a) for a in (2.0, 3.0)])
    runs = [operator.refine(inputs, steps=n, residual="strong") for n in range(5)]
    errors = [float(abs(run.predict(t=T, x=X) - exact).max()) for run in runs]
    assert errors[1] < 0.2 * errors[0]
    assert errors[3] < 1e-3 * errors[0]
    residuals = np.stack([run.after["equation"] for run in runs])
    np.testing.assert_allclose(residuals[0], runs[4].before["equation"])
    assert np.all(residuals[3] < 1e-3 * residuals[0])
    np.testing.assert_allclose(residuals[4], residuals[3], rtol=1e-2)
    with jax.enable_x64(False):
        model = jax.tree.map(lambda a: a.astype(jnp.float32), operator.model)
        single = Operator(model).refine(inputs, steps=3, residual="strong").predict(t=T, x=X).to_numpy()
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, runs[3].predict(t=T, x=X), atol=1e-5)
    for memory in (1 << 29, 1000):
        iterated = whitened(operator).refine(inputs, steps=3, residual="strong", memory=memory)
        np.testing.assert_allclose(iterated.predict(t=T, x=X), runs[3].predict(t=T, x=X), atol=1e-7)


def test_strong_systems_that_are_not_solved_to_their_end_are_said(caplog, monkeypatch):
    operator = whitened(classical(Burgers(), {"t": 5, "x": 9}))
    step = inspect.unwrap(gauss_newton._step)
    monkeypatch.setattr(gauss_newton, "ITERATIONS", 3)
    monkeypatch.setattr(
        gauss_newton, "_step", eqx.filter_jit(lambda *given: step(*given))
    )  # nothing compiled is reused
    refined = operator.refine([wave, wave], residual="strong")
    assert "2 Gauss-Newton steps were not solved to their end" in caplog.text
    assert np.all(refined.after["equation"] < refined.before["equation"])


def test_coupled_fields_are_refined_from_far_away_and_nothing_gets_worse():
    operator = classical(zoo.Brusselator(), {"t": 6, "x": 8})
    far = starting_from(operator, 30.0 * jax.random.normal(KEY, operator.model.coefficient_shape()))
    inputs = operator.problem.sample(KEY, 2)
    total = lambda report: np.sum([report[name] ** 2 for name in report], axis=0)  # noqa: E731
    bad = far.refine(inputs, steps=2, residual="strong")
    assert (total(bad.after) <= total(bad.before)).all()
    good = operator.refine(inputs, steps=4, residual="strong")
    assert (total(good.after) < 1e-3 * total(good.before)).all()
    weighted = operator.refine(inputs, steps=4, weights={"equation_p": 100.0})
    assert (weighted.after["equation_p"] < good.after["equation_p"]).all()


def test_a_function_whose_normal_equations_fail_stays_as_it_is(caplog, monkeypatch):
    operator = make(Burgers())
    values = jnp.asarray(wave(np.arange(16) / 16))
    before = operator.predict(values, t=T, x=X)
    step = inspect.unwrap(gauss_newton._step)
    monkeypatch.setattr(gauss_newton, "_solve", lambda matrix, slope: jnp.full_like(slope, jnp.nan))
    monkeypatch.setattr(
        gauss_newton, "_step", eqx.filter_jit(lambda *given: step(*given))
    )  # nothing compiled is reused
    refined = operator.refine(values, method="direct")
    np.testing.assert_allclose(refined.predict(t=T, x=X), before, rtol=1e-6)
    assert "the network's answer was kept for 1 of 1 functions" in caplog.text


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "weights": ({"weights": {"t=0": 2.0}}, "weights are for equation; got t=0"),
    "method": ({"method": "lucky"}, "method must be one of iterative, direct; got 'lucky'"),
    "whitening": ({"method": "iterative"}, "needs a model that was trained with whitening"),
    "residual": ({"residual": "weak"}, "residual must be one of tested, strong; got 'weak'"),
    "steps": ({"steps": -1}, "steps must be a whole number between 0 and 1,000; got -1"),
    "tested method": ({"residual": "tested", "method": "direct"}, 'method and weights are for residual = "strong"'),
    "tested weights": ({"residual": "tested", "weights": {"equation": 2.0}}, "weights change nothing"),
    "nodes": ({"nodes": {"t": 5}}, "nodes must give a positive number for each of the axes t, x; got {'t': 5}"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_one_sentence(name):
    arguments, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        classical(Burgers(), {"t": 4, "x": 5}).refine(wave, **arguments)
