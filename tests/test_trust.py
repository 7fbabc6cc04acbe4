"""Trust: estimated errors against true ones, what lies outside of a calibration, and solutions to a tolerance."""

import functools
import json
import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import seponet
from seponet import Domain, NotCalibrated, Operator, Periodic, Problem, Value
from seponet.cli import main
from seponet.discretise import solve_functions
from seponet.discretise.discretisation import Discretisation
from seponet.evaluation.break_even import break_even, describe_break_even, solver_costs
from seponet.evaluation.testset import load_testset
from seponet.functions import Functions, Scalar, SpectralField
from seponet.operator import climb
from seponet.operator.calibrate import larger_of
from seponet.operator.error import _known
from seponet.operator.estimate import FIRMEST, LEVELS, Ratios, estimate, of_solution
from seponet.operator.estimate import scaled as scaled_estimate
from seponet.problems import NavierStokes

KEY = jax.random.key(3)
T, X = np.linspace(0, 1, 41), np.arange(64) / 64
COUNT = 24
FIELD = {"sigma": 3.0, "tau": 3.0, "gamma": 3.0}


class Diffusion(Problem):
    """Its solutions are known: every wave decays by itself, at a rate that is an input too."""

    domain = Domain(t=(0, 1), x=Periodic(0, 1))
    inputs = {"u": SpectralField(domain["x"], **FIELD, modes=3), "nu": Scalar(0.01, 0.05)}
    conditions = [Value({"t": 0}, equals="u")]

    def equation(self, s_t, s_xx, nu):
        return s_t - nu * s_xx

    def reference(self, inputs, points):  # pyright: ignore[reportIncompatibleMethodOverride]
        waves = np.fft.rfft(np.asarray(inputs["u"](inputs["u"].space.sensors(64)))) / 64
        k = 2 * np.pi * np.arange(waves.shape[1])
        decay = np.exp(-np.asarray(inputs["nu"].parameters)[:, None, None] * k**2 * points["t"][:, None])
        series = (waves * np.where(k > 0, 2, 1))[:, None] * decay
        return {"s": np.real(series @ np.exp(1j * k[:, None] * points["x"]))}


class Burgers(Problem):
    nu: float = 0.01
    domain = Domain(t=(0, 1), x=Periodic(0, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=20.0, tau=3.0, gamma=3.0, modes=5)}
    conditions = [Value({"t": 0}, equals="u")]

    def equation(self, s, s_t, s_x, s_xx):
        return s_t + s * s_x - self.nu * s_xx


class Exchange(Problem):
    """Two fields, and walls that are not periodic."""

    domain = Domain(t=(0, 1), x=(0, 1))
    fields = ("a", "b")
    inputs = {"u": SpectralField(domain["x"], **FIELD, modes=2)}
    conditions = [
        Value({"t": 0}, equals="u", field="a"),
        Value({"t": 0}, field="b"),
        Value({"x": (0, 1)}, field="a"),
        Value({"x": (0, 1)}, field="b"),
    ]

    def equation_a(self, a, a_t, a_xx, b):
        return a_t - 0.05 * a_xx + a - b

    def equation_b(self, b, b_t, b_xx, a):
        return b_t - 0.05 * b_xx + b - a


def make(problem: Problem, rank: dict[str, int], **changes: Any) -> Operator:
    """An operator whose branch has not been trained."""
    config: dict[str, Any] = {"decoder": "tucker", "trunk": "classical", "rank": rank, "exact": "all", "sensors": 16}
    return Operator(zoo.small(problem, **(config | changes)))


def scaled(functions: Functions, factor: float) -> Functions:
    return Functions(functions.space, jax.tree.map(lambda leaf: factor * leaf, functions.parameters))


@functools.cache
def solutions(kind: type[Problem]) -> tuple[dict[str, Functions], np.ndarray]:
    """Some functions, and their solutions at (T, X): by a formula, or by the library's own solver to 1e-5."""
    problem = kind()
    inputs = problem.sample(KEY, COUNT)
    if problem.has_reference:
        return inputs, problem.reference_solution(inputs, {"t": T, "x": X})["s"]
    return inputs, solve_functions(problem, inputs, 1e-5)({"t": T, "x": X}, "s")


def some(operator: Operator, count: int = COUNT) -> Any:
    return {name: f[:count] for name, f in solutions(type(operator.problem))[0].items()}


def true_errors(operator: Operator, count: int = COUNT, predicted: Any = None) -> np.ndarray:
    """The relative L2 errors of the first functions."""
    exact = solutions(type(operator.problem))[1][:count]
    predicted = operator.predict(some(operator, count), t=T, x=X) if predicted is None else predicted
    weights = np.ones(len(T))
    weights[[0, -1]] = 0.5
    gap, size = ((v**2 * weights[None, :, None]).sum((1, 2)) for v in (predicted.to_numpy() - exact, exact))
    return np.sqrt(gap / size)


@pytest.fixture(scope="module")
def diffusion() -> Operator:
    return make(Diffusion(), {"t": 4, "x": 7}, zero_last=True).calibrate(20)


@pytest.fixture(scope="module")
def burgers() -> Operator:
    return make(Burgers(), {"t": 6, "x": 15}, zero_last=True).calibrate(24)


def test_the_estimate_is_the_error(diffusion):
    inputs, truth = some(diffusion), true_errors(diffusion)
    for level in LEVELS:
        found = diffusion.error(inputs, level=level)
        np.testing.assert_allclose(found.error, truth, rtol=0.25 if level == "fast" else 0.05)
        assert np.all((found.error <= found.upper_90 * 1.001) & (found.upper_90 <= found.upper_95))
        assert found.attrs == {"level": level, "note": ""}


def test_upper_values_cover_a_nonlinear_problem_and_a_residual_would_not(burgers):
    truth, found = true_errors(burgers), burgers.error(some(burgers))
    # Nineteen of twenty in the mean; one standard deviation is 1.1 of 24, and calibration adds as much.
    assert np.sum(truth <= found.upper_95.to_numpy()) >= COUNT - 4
    assert np.median(found.upper_95.to_numpy() / truth) < 3
    assert bool(found.inside.mean() > 0.9)


def test_the_error_as_a_field_leads_to_the_solution(burgers):
    inputs = some(burgers, 2)
    field = burgers.error(inputs, where=True, t=T, x=X)["s"]
    predicted = burgers.predict(inputs, t=T, x=X)
    assert field.dims == ("function", "t", "x")
    corrected = predicted - field
    # One Newton step: quadratic in the error.
    assert np.all(true_errors(burgers, 2, corrected) < 0.3 * true_errors(burgers, 2, predicted))
    with pytest.raises(ValueError, match="pass where=True with them, or leave out t"):
        burgers.error(inputs, t=T)


def test_inputs_outside_are_told_in_words(diffusion, caplog):
    caplog.set_level(logging.WARNING)
    inputs = some(diffusion, 4)
    assert bool(diffusion.error(inputs).inside.all())
    assert not caplog.messages
    large = diffusion.error({**inputs, "u": scaled(inputs["u"], 3.0)})
    assert not bool(large.inside.any())
    assert "4 of 4 inputs lie outside" in large.attrs["note"] == caplog.messages[-1]
    assert "u is larger" in large.attrs["note"]
    fast = diffusion.error({**inputs, "nu": np.array([0.02, 0.2, 0.001, 0.05])})
    assert fast.inside.to_numpy().tolist() == [True, False, False, True]
    assert "nu is not between 0.01 and 0.0" in fast.attrs["note"]
    assert "(function 1, 2)" in fast.attrs["note"]
    rough = diffusion.error({"u": lambda x: 0.05 * np.sin(14 * np.pi * x), "nu": 0.02})
    assert not bool(rough.inside)
    assert "u is rougher" in rough.attrs["note"]


def test_the_pure_function_is_what_the_operator_says(burgers):
    inputs = some(burgers, 3)
    values = burgers.model.encode(inputs)
    found = jax.jit(lambda v: estimate(burgers.model, burgers.calibration, v))(values)
    said = burgers.error(values, level="fast")
    for name in ("error", "upper_90", "upper_95", "score"):
        np.testing.assert_allclose(getattr(found, name), said[name], rtol=1e-6)
    slope = jax.grad(lambda v: jnp.sum(estimate(burgers.model, burgers.calibration, v).error))(values)
    assert np.all(np.isfinite(slope["u"]))


def test_a_prediction_carries_its_error(diffusion):
    inputs = some(diffusion, 3)
    predicted = diffusion.predict(inputs, t=1.0, x=X, error=True)
    np.testing.assert_array_equal(predicted, diffusion.predict(inputs, t=1.0, x=X))
    np.testing.assert_allclose(predicted.error, diffusion.error(inputs, level="fast").error, rtol=1e-6)
    assert predicted.upper_95.dims == predicted.inside.dims == ("function",)
    one = diffusion.predict({"u": np.sin(2 * np.pi * X), "nu": 0.02}, t=1.0, x=X, error=True)
    assert one.error.ndim == 0


def test_estimates_do_not_depend_on_memory_or_translation(burgers):
    inputs = some(burgers, 5)
    found = burgers.error(inputs)
    np.testing.assert_allclose(burgers.error(inputs, memory=200_000).error, found.error, rtol=1e-9)
    moved = burgers.error({"u": np.roll(burgers.model.encode(inputs)["u"], 3, axis=1)})
    np.testing.assert_allclose(moved.error, found.error, rtol=0.3)


def test_a_calibration_is_saved_and_earlier_operators_have_none(burgers, tmp_path):
    inputs = some(burgers, 3)
    diffusion = make(zoo.Poisson(), {"x": 3, "y": 3})
    diffusion.save(tmp_path / "old")
    old = seponet.load(tmp_path / "old")
    assert old.calibration is None
    burgers = Operator(make(zoo.AllenCahn(), {"t": 4, "x": 5}).model, burgers.calibration)
    burgers.save(tmp_path / "new")
    new = seponet.load(tmp_path / "new")
    assert jax.tree.structure(new.calibration) == jax.tree.structure(burgers.calibration)
    for ours, theirs in zip(jax.tree.leaves(new.calibration), jax.tree.leaves(burgers.calibration), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(inputs["u"]) == 3


def test_without_a_calibration_there_is_an_estimate_and_a_warning():
    operator = make(Diffusion(), {"t": 4, "x": 7}, zero_last=True)
    inputs = some(operator, 3)
    found = operator.error(inputs)
    np.testing.assert_allclose(found.error, true_errors(operator, 3), rtol=0.05)
    assert np.all(np.isnan(found.upper_95))
    assert not bool(found.inside.any())
    assert "not calibrated" in found.attrs["note"]
    with pytest.raises(ValueError, match="call calibrate"):
        operator.error(inputs, level="fast")
    with pytest.raises(ValueError, match="level must be one of fast, solve"):
        operator.error(inputs, level="slow")


def test_solve_takes_the_network_where_that_is_enough(burgers):
    inputs = some(burgers, 6)
    loose = burgers.solve(inputs, rtol=0.9, t=T, x=X)
    accepted = loose.done.to_numpy() == "network"
    assert np.any(accepted)
    network = burgers.predict(inputs, t=T, x=X).to_numpy()
    np.testing.assert_allclose(loose.to_numpy()[accepted], network[accepted])
    assert np.all(true_errors(burgers, 6, loose) <= 0.9)
    outside = burgers.solve({"u": scaled(inputs["u"], 4.0)}, rtol=0.9, t=T, x=X)
    assert "network" not in outside.done.to_numpy()  # three times the calibrated error, times the score, is too much


def test_solve_claims_what_holds(burgers):
    rtol = 1e-4
    inputs = some(burgers, 4)
    solved = burgers.solve(inputs, rtol=rtol, t=T, x=X)
    assert solved.attrs["reached"] == 4
    assert solved.attrs["reason"] == ""
    assert set(solved.done.to_numpy()) <= {"network", "corrected", "larger basis"}
    assert np.all(solved.error <= rtol)
    assert np.all(true_errors(burgers, 4, solved) <= rtol)
    assert np.all(solved.seconds > 0)


def test_solve_gives_up_honestly(burgers, monkeypatch, caplog):
    monkeypatch.setattr(burgers._estimator.ladder, "largest", 300)
    monkeypatch.setattr(burgers._estimator.ladder, "_levels", {})
    inputs = {"u": scaled(some(burgers, 2)["u"], 6.0)}
    solved = burgers.solve(inputs, rtol=1e-6, t=T, x=X)
    assert set(solved.done.to_numpy()) == {"not reached"}
    assert solved.attrs["reached"] == 0
    assert "fall too slowly" in solved.attrs["reason"]
    assert "rtol = 1e-06 was not reached for functions 0, 1" in caplog.messages[-1]
    assert np.all(solved.error > 1e-6)
    with pytest.raises(ValueError, match="between 0 and 1"):
        burgers.solve(inputs, rtol=2.0, t=T, x=X)


def test_differences_that_fall_slowly_count_more():
    rates = climb._ratio(np.array([1.0, 1.0, 1.0, 1.0, np.inf]), np.array([np.inf, 4.0, 1.25, 1.0, 1.0]))
    np.testing.assert_allclose(climb._factors(rates), [climb.UNKNOWN, 1.0, 4.0, np.inf, climb.UNKNOWN])


def test_ratios_are_conformal():
    ratios = Ratios.of(np.arange(1.0, 51.0), np.ones(50))
    # With n = 50, a new one of 51 exchangeable ratios is below the 49th of them with probability 49 / 51 > 0.95.
    assert (ratios.upper_90, ratios.upper_95, ratios.median) == (46.0, 49.0, 25.5)
    assert ratios.certain >= 50.0
    assert ratios.factors == (46.0, 49.0, ratios.certain)


def test_errors_are_looked_for_outside_of_a_basis_that_is_large_too():
    """Poisson's equation with data that jump at the corners takes 93 x 62 functions, and errs outside of them."""
    base = Discretisation.of(Exchange(), ("t", "x"), {"t": 40, "x": 60})
    assert larger_of(base).size > 2 * base.size


def test_upper_values_promise_no_error_to_a_per_cent():
    ratios = Ratios.of(np.linspace(1.99, 2.01, 50), np.ones(50))
    np.testing.assert_allclose(ratios.factors, np.multiply(FIRMEST, 2.0))


def test_upper_values_are_relative_to_the_solution_and_not_to_a_prediction_that_is_much_larger():
    # A prediction of norm one with an error of 0.2 belongs to a solution whose norm is 0.8 at least.
    upper = np.array([1e-4, 0.2, 0.9, 4.0])
    np.testing.assert_allclose(of_solution(upper, np.full(4, 2.0)), [1e-4 / (1 - 1e-4), 0.25, 9.0, 200.0])
    # Predictions for sources that are all noise to the network are dozens of times too large.
    found = scaled_estimate(Ratios(1.0, 1.0, 1.0, 1.0, 1.0), np.array([0.8]), np.array([2.0]))
    assert found.upper_95[0] > 10 * found.error[0]
    # Beyond that nothing is known, and an estimator says so.
    sure, far = (
        _known(scaled_estimate(Ratios(1.0, 1.0, 1.0, 1.0, 1.0), np.array([0.9]), np.array([at]))) for at in (1.0, 2.0)
    )
    assert np.isfinite(sure.upper_95[0])
    assert np.isinf(far.upper_95[0])
    # Inside, ratios of a calibration are relative to solutions already.
    np.testing.assert_array_equal(of_solution(upper, np.ones(4)), upper)


def test_learned_trunks_are_calibrated_by_projection():
    operator = Operator(zoo.small(Diffusion(), decoder="cp", rank=6, exact="all", sensors=16, zero_last=True))
    inputs = some(operator, 3)
    with pytest.raises(NotCalibrated, match="no classical basis of its own"):
        operator.error(inputs)
    calibrated = operator.calibrate(20)
    np.testing.assert_allclose(calibrated.error(inputs).error, true_errors(calibrated, 3), rtol=0.3)


def test_two_fields_and_soft_conditions():
    problem = Exchange()
    operator = make(problem, {"t": 5, "x": 7}, zero_last=True, exact=("t",)).calibrate(20)
    inputs = problem.sample(KEY, 3)
    solved = operator.solve(inputs, rtol=1e-2, t=T, x=X)
    assert set(solved.data_vars) == {"a", "b"}
    assert solved.attrs["reached"] == 3
    exact = solve_functions(problem, inputs, 1e-4, exact=("t",))
    gap = sum(np.sum((solved[f].to_numpy() - exact({"t": T, "x": X}, f)) ** 2, axis=(1, 2)) for f in ("a", "b"))
    size = sum(np.sum(exact({"t": T, "x": X}, f) ** 2, axis=(1, 2)) for f in ("a", "b"))
    assert np.all(np.sqrt(gap / size) < 1.2e-2)


def test_what_can_not_be_calibrated_says_why():
    with pytest.raises(NotCalibrated, match="derivatives of potentials"):
        Operator(zoo.small(NavierStokes(), output="curl", decoder="tucker", trunk="classical", exact="all")).calibrate()
    with pytest.raises(NotCalibrated, match="at least 20 functions; got 3"):
        make(Diffusion(), {"t": 4, "x": 7}).calibrate(3)


def test_windows_carry_the_estimate_along(burgers):
    inputs = some(burgers, 2)
    long = burgers.advance(inputs, error=True, t=[0.5, 1.5, 2.5], x=X)
    first = burgers.error(inputs)
    assert long.error.dims == ("function", "window")
    np.testing.assert_allclose(long.error[:, 0], first.error)
    assert np.all(np.diff(long.upper_95, axis=1) > 0)


def test_commands_say_how_good_an_answer_is(tmp_path, capsys):
    folder, output = str(tmp_path / "run"), str(tmp_path / "s.nc")
    operator = Operator(zoo.small(seponet.problems.Burgers(), decoder="tucker", trunk="classical",
                                  rank={"t": 3, "x": 5}, exact="all", sensors=16))  # fmt: skip
    operator.save(folder)
    np.save(tmp_path / "u.npy", 0.1 * np.sin(2 * np.pi * np.arange(32) / 32)[None])
    files = ["--input", str(tmp_path / "u.npy"), "--output", output, "--grid", "t=5,x=8"]
    assert main(["predict", folder, *files]) == 0
    told = capsys.readouterr().out
    assert "Estimated relative L2 errors" in told
    assert "not calibrated" in told
    assert main(["solve", folder, *files, "--overwrite", "--tolerance", "0.01", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["reached"] == 1
    assert told["done"][0] in ("corrected", "larger basis")
    assert main(["info", folder]) == 0
    assert "not calibrated" in capsys.readouterr().out
    assert main(["solve", folder, *files, "--set", "constants.nu=1"]) == 1
    assert "exists already" in capsys.readouterr().err


def test_break_even_counts_solves():
    costs = {"training_seconds": 10.0, "prediction_seconds": 0.001, "solver_seconds": 0.011, "solver": "own"}
    assert break_even(costs) == {"break_even_solves": 1000}
    assert break_even({**costs, "solver_seconds": 0.0001}) == {"break_even_solves": None}
    assert break_even({"training_seconds": 10.0}) == {}
    told = describe_break_even({**costs, "break_even_solves": 1000, "solver_error": 0.01})
    assert told == "1000 solves: 1 ms for a prediction, 11 ms for the library's own solver at an error of 1%"


def test_costs_of_operator_and_solver_are_measured(diffusion):
    testset = load_testset(diffusion.problem, "test", 8, points={"t": T, "x": X})
    costs = solver_costs(diffusion, testset, 0.05)
    assert (costs["solver"], costs["solver_error"]) == ("reference", 0.0)
    assert costs["prediction_seconds"] > 0
    assert costs["solver_seconds"] > 0
