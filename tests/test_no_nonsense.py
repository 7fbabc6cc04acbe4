"""No silent nonsense: what is no input, no grid, no setting or no answer is one sentence."""

import ctypes
import gc
import logging
import platform
import weakref
from typing import Any

import jax
import numpy as np
import psutil
import pytest
import xarray as xr

from seponet import Domain, Problem, Value, nn, train
from seponet._machine import return_free_memory
from seponet.cli.export import export_command
from seponet.cli.files import grid_points, read_input, write_fields
from seponet.cli.parser import parse
from seponet.functions import Scalar
from seponet.operator import evaluators
from seponet.operator.operator import Operator
from seponet.problems import Heat
from seponet.runs.config import RunConfig
from seponet.runs.problems import make_problem
from seponet.runs.train import _programs_forgotten
from seponet.training.diagnosis import Diverged
from seponet.training.lbfgs import Polish
from seponet.training.loop import prepare, train_model
from seponet.training.ranks import choose_ranks
from seponet.training.recipe import Recipe
from seponet.training.step import TrainStep

SMALL: dict[str, Any] = {"rank": 2, "trunk_width": 3, "trunk_depth": 1, "branch_width": 3, "branch_depth": 1}


class Decay(Problem):
    rate: float = 1.0
    domain = Domain(t=(0, 1))
    inputs = {"u": Scalar(0.5, 1.5)}
    conditions = [Value({"t": 0}, equals="u")]

    def equation(self, s, s_t):
        return s_t + self.rate * s


@pytest.fixture(scope="module")
def decay() -> Operator:
    return Operator(nn.build(Decay(), key=jax.random.key(0), exact="all", **SMALL))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (np.array(1.0 + 2j), "must be real"),
        (np.datetime64("2020-01-01"), "must be an array of numbers; got the type datetime64"),
        (np.array((1.0, 2.0), [("a", float), ("b", float)]), "must be an array of numbers; got the type"),
        (np.array("1.0"), "must be an array of numbers; got the type <U3"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "has masked values; fill them first"),
        (np.array(np.nan), "must be finite; got nan"),
        (lambda: 1j, "must return real numbers; got complex128"),
    ],
)
def test_what_are_no_numbers_is_no_input(decay, value, sentence):
    with pytest.raises(ValueError, match=sentence):
        decay.predict(value, t=0.5)


def test_numbers_beyond_the_precision_and_complex_values_are_refused(decay):
    with jax.enable_x64(False):
        single = Operator(jax.tree.map(lambda leaf: jax.numpy.asarray(np.asarray(leaf)), decay.model))
        with pytest.raises(ValueError, match=r"at most 3.4e\+38 in this precision; got 1e\+300"):
            single.predict(np.array(1e300), t=0.5)
    with pytest.raises(ValueError, match="must be real; got complex numbers"):
        decay.evaluate(np.array(1j), t=0.5)


def test_a_parameter_outside_of_its_range_is_told(decay, caplog):
    with caplog.at_level(logging.WARNING):
        decay.predict(np.array([0.5, 1.0, 1.5]), t=0.5)
        assert not caplog.text
        decay.predict(7.0, t=0.5)
    assert "input 'u' is declared in [0.5, 1.5], and 7 is outside" in caplog.text


def test_an_answer_that_is_not_finite_is_an_error(decay):
    broken = Operator(jax.tree.map(lambda x: x * np.nan if jax.numpy.issubdtype(x.dtype, float) else x, decay.model))
    with pytest.raises(ValueError, match="the prediction of s is not finite for 1 of 1 functions"):
        broken.predict(1.0, t=0.5)
    with pytest.raises(ValueError, match="the prediction of s is not finite for 2 of 2 functions"):
        broken.evaluate(np.array([1.0, 1.0]), t=0.5)
    # A program that is being traced has no values to look at.
    assert np.isnan(jax.jit(lambda u: broken.evaluate(u, t=0.5))(1.0))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (np.array(np.nan), "must be finite; got nan"),
        (np.array([1.0, np.inf]), "must be finite; got inf in function 1"),
        (np.datetime64("2020-01-01"), "must be an array of numbers; got the type datetime64"),
        (np.array("1.0"), "must be an array of numbers; got the type <U3"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "has masked values; fill them first"),
    ],
)
def test_evaluate_refuses_what_predict_refuses(decay, value, sentence):
    with pytest.raises(ValueError, match=sentence):
        decay.evaluate(value, t=0.5)


def test_grids_and_derivatives_that_can_not_be_are_refused(decay):
    with pytest.raises(ValueError, match=r"on the grid t 1,000,000,000,000 would take [\d,.]+ GiB, and"):
        decay.predict(1.0, t=np.broadcast_to(0.5, 10**12))
    with pytest.raises(ValueError, match=r"on the grid t 1,000,000 x x 1,000,000 would take"):
        grid_points(Heat(), {"t": 10**6, "x": 10**6})
    with pytest.raises(ValueError, match=r"beyond derivatives of order 8"):
        decay.predict(1.0, derivative="s_" + 30 * "t", t=0.5)
    for time in (np.inf, np.nan, 1e300):
        with pytest.raises(ValueError, match="at most 100,000 windows"):
            decay.advance(1.0, t=time)


def test_the_programs_of_grids_that_are_not_used_any_more_are_dropped(decay, monkeypatch):
    monkeypatch.setattr(evaluators, "KEPT", 2)
    client, counts = jax.devices()[0].client, []
    for i in range(9):
        decay.predict(1.0, t=np.linspace(0, 1, 20 + i))
        counts.append(len(client.live_executables()))
    # Every second grid drops what was compiled, so there are never more than after the first few.
    assert max(counts[6:]) <= max(counts[:4])


def test_trainings_and_operators_are_forgotten_with_their_programs():
    """Nothing in the process keeps them: neither a table of compiled functions nor what these have closed over."""
    client, counts = jax.devices()[0].client, []
    for seed in range(4):
        step = prepare(Decay(), Recipe().changed({**BRIEF, "train.polish": 1}), seed)
        assert isinstance(step, TrainStep)
        state, _ = step.run(step.start(), 1)
        polish = Polish(step, state)
        polish.best(polish.run(polish.start(), 1))
        operator = Operator(step.model(state))
        operator.residual(1.0)
        gone = [weakref.ref(thing) for thing in (step, polish, operator)]
        del step, state, polish, operator
        gc.collect()
        assert [reference() for reference in gone] == [None, None, None]
        counts.append(len(client.live_executables()))
    assert counts[3] <= counts[1]


def test_a_run_that_chose_a_discretisation_forgets_what_it_compiled():
    """The hundreds of programs of the general recipe serve no other problem; those of a fixed one are few."""
    client = jax.devices()[0].client
    for recipe, forgotten in (
        (Recipe().changed({"model.rank": 3}), False),
        (RunConfig.make(Decay, "quick").recipe, True),
    ):
        compiled: Any = jax.jit(lambda x: 2 * x)
        with _programs_forgotten(RunConfig.make(Decay, recipe)):
            compiled(1.0)
            before = len(client.live_executables())
        assert (len(client.live_executables()) < before) == forgotten
        assert compiled._cache_size() == (0 if forgotten else 1)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps what was freed and can be asked for it")
def test_memory_that_was_freed_goes_back_to_the_system():
    library = ctypes.CDLL(None)
    library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    pieces = [library.malloc(2000) for _ in range(50_000)]
    for piece in pieces:
        ctypes.memset(ctypes.c_void_p(piece), 1, 2000)
    for piece in pieces[:-1]:  # the last one is in the way of those before it
        library.free(piece)
    held = psutil.Process().memory_info().rss
    return_free_memory()
    assert psutil.Process().memory_info().rss < held - 50 * 2**20
    library.free(pieces[-1])


def test_files_that_are_not_what_they_are_called(tmp_path, monkeypatch):
    with (tmp_path / "u.npy").open("wb") as file:
        np.savez(file, one=np.ones(3), two=np.ones(3))
    with pytest.raises(ValueError, match=r"u.npy can't be read as the input 'u': it is an archive of several arrays"):
        read_input(tmp_path / "u.npy", "u")
    (tmp_path / "u.csv").write_bytes(b"\xef\xbb\xbf1,2,3\n")
    np.testing.assert_array_equal(read_input(tmp_path / "u.csv", "u"), [1, 2, 3])

    def full(*_: object, **__: object) -> None:
        raise RuntimeError("NetCDF: HDF error")

    monkeypatch.setattr(xr.DataArray, "to_netcdf", full)
    with pytest.raises(ValueError, match=r"s.nc can't be written \(NetCDF: HDF error\): make room"):
        write_fields(xr.DataArray(np.ones(2)), tmp_path / "s.nc")
    assert not (tmp_path / "s.nc").exists()


class Logarithm(Problem):
    domain = Domain(t=(0, 1))
    conditions = [Value({"t": 0}, equals=-1.0)]

    def equation(self, s, s_t):
        return s_t + jax.numpy.log(s)


class Root(Problem):
    """Has a value where s is negative, but no derivative."""

    domain = Domain(t=(0, 1))
    conditions = [Value({"t": 0}, equals=-1.0)]

    def equation(self, s, s_t):
        return s_t + jax.numpy.sqrt(jax.numpy.maximum(s, 0.0))


class Drawn(Problem):
    """Has no value for one in a few hundred of its inputs."""

    domain = Domain(t=(0, 1))
    inputs = {"u": Scalar(-0.02, 1.0)}
    conditions = [Value({"t": 0}, equals=1.0)]

    def equation(self, s_t, u):
        return s_t + jax.numpy.log(u)


BRIEF: dict[str, Any] = {f"model.{key}": value for key, value in SMALL.items()}
BRIEF |= {"model.exact": "all", "train.steps": 40, "train.sampling.points": 4, "train.optimizer.name": "adam"}
BRIEF |= {"train.loss.normalise": False, "train.functions": 2}


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (
            Logarithm,
            r"Logarithm .* at step 0, whatever the learning rate \(`equation` has no value at t = 0\.\d+, s = -",
        ),
        (Logarithm, r": `log` of -\d\S* is no number, for function 0 of the batch\): keep the formula away"),
        (Root, r"the derivative of `equation` has no value at t = 0\.\d+, s = -.*: `div` of 0\.5 and 0 is no number"),
        (Drawn, r"whatever the learning rate \(`equation` has no value at t = .*, u = -0\.0\d+: `log` of -0\.0"),
    ],
)
def test_an_equation_without_a_value_is_named_with_a_point_and_not_the_learning_rate(problem, sentence):
    with pytest.raises(Diverged, match=sentence):
        train_model(problem(), Recipe().changed(BRIEF), quiet=True)


class Squared(Problem):
    """Without exact conditions the lift is zero, where the equation has no value."""

    shift: float = 0.0
    domain = Domain(t=(0, 1))
    conditions = [Value({"t": 0}, equals=1.0)]

    def equation(self, s, s_t):
        return s_t + jax.numpy.log(s**2 - self.shift)


@pytest.mark.parametrize("shift", [0.0, 1e-30])
def test_a_lift_without_a_value_is_told_from_an_equation(shift):
    """Functions are scaled by the residual of the lift; an infinite one would scale all of the loss to zero."""
    changes = {**BRIEF, "model.exact": (), "train.loss.normalise": True}
    with pytest.raises(Diverged, match=r"of the lift alone, without the network, has no value at .*normalise = false"):
        train_model(Squared(shift), Recipe().changed(changes), quiet=True)


@pytest.mark.parametrize(
    "setting",
    [
        "model.trunk_width=0",
        "model.branch_width=-3",
        "model.rank=1000000000000000000000",
        "model.rank={t = 0}",
        "model.trunk_depth=-1",
        "model.ridge=nan",
        "model.unseen=1",
        "train.steps=-1",
        "train.steps=1000000000000000000000",
        "train.polish=-1",
        "train.validate=nan",
        "train.checkpoint=-1.0",
        "train.checkpoint=inf",
        "train.sampling.points=0",
        "train.sampling.points={t = -4}",
        "train.loss.weights={equation = nan}",
        "train.loss.weights={t = -1.0}",
        "train.loss.cap=-1.0",
        "train.loss.smoothing=nan",
        "train.optimizer.rate=nan",
        "train.optimizer.rate=0.0",
        "train.optimizer.clip=-1.0",
        "train.rollout.accept=nan",
        "train.rollout={windows = {a = {b = 1}}}",
        "train.amplitude=nan",
    ],
)
def test_settings_that_mean_nothing_are_refused(setting):
    ((key, value),) = parse(["train", "heat", "--set", setting]).set
    with pytest.raises(ValueError, match=key.rpartition(".")[2]):
        Recipe().changed({key: value})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 10**400, True, "1"])
def test_constants_are_finite_numbers(value):
    with pytest.raises(ValueError, match=r"constants.rate must be (finite|a number)"):
        make_problem(Decay, {"rate": value})


def test_constants_of_a_problem_are_finite_however_it_is_made():
    for value in (np.nan, np.inf, np.float64(-np.inf)):
        with pytest.raises(ValueError, match="Decay: the constant rate must be finite; got"):
            Decay(rate=value)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (lambda self, s, s_t: (s > s_t).astype(int), "a real number that is differentiated, but it returned int"),
        (lambda self, s, s_t: s > s_t, "a real number that is differentiated, but it returned bool"),
        (lambda self, s, s_t: s_t + 1j * s, "must be real, but it returned complex numbers"),
        (lambda self, s, s_t: s_t + jax.numpy.cumsum(s, axis=1), "must be elementwise, but it has a cumulative sum"),
        (lambda self, s, s_t: s_t + s - jax.numpy.mean(s), "must be elementwise, but it has a sum or mean"),
    ],
)
def test_equations_that_are_none_are_refused_at_definition(body, sentence):
    with pytest.raises(ValueError, match=sentence):
        type("Wrong", (Decay,), {"equation": body, "__module__": __name__})


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "heat", "--seed", "1" * 40),
        ("train", "heat", "--seed", "1.5"),
        ("train", "heat", "--functions", "-1"),
        ("train", "heat", "--functions", "9" * 30),
        ("train", "heat", "--budget", "nan"),
        ("train", "heat", "--budget", "-5s"),
        ("train", "heat", "--budget", "9" * 40),
        ("train", "heat", "--calibration", "-1"),
        ("train", "heat", "--seed=--"),
        ("predict", "run", "--output", "s.nc", "--grid=--"),
        ("predict", "run", "--output=--"),
        ("predict", "run", "--output", "s.nc", "--grid", "t=3,t=4"),
        ("predict", "run", "--output", "s.nc", "--grid", "t=" + "9" * 30),
        ("evaluate", "run", "--functions", "0"),
        ("solve", "heat", "--output", "s.nc", "--tolerance", "nan"),
        ("solve", "heat", "--output", "s.nc", "--tolerance", "-1"),
    ],
)
def test_flags_that_mean_nothing_are_wrong_calls(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        parse(arguments)
    assert end.value.code == 2
    assert ": error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "value"),
    [("seed", 2**63), ("seed", True), ("functions", -1), ("functions", True), ("calibration", -1), ("budget", np.nan)],
)
def test_arguments_of_train_that_mean_nothing_are_refused(argument, value):
    with pytest.raises(ValueError, match=f"^{argument}.* must be a (whole )?number between"):
        train(Decay, **{argument: value}, quiet=True)


def test_a_page_that_can_not_be_written_is_named(decay, tmp_path, monkeypatch):
    decay.save(tmp_path / "run")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seponet.export.html.write_text", full)
    arguments = parse(["export", str(tmp_path / "run"), str(tmp_path / "s.html"), "--problem", f"{__file__}:Decay"])
    with pytest.raises(ValueError, match=r"s.html can't be written \(No space left on device\): make room"):
        export_command(arguments)


def test_dates_are_no_coordinates(decay):
    with pytest.raises(ValueError, match="the coordinate 't' must be numbers; got datetime64"):
        decay.predict(1.0, t=np.datetime64(0, "s"))
    with pytest.raises(ValueError, match="the coordinate 't' must be numbers; got datetime64"):
        decay.advance(1.0, t=np.datetime64(0, "s"))


def test_a_discretisation_that_can_not_begin_says_where_the_equation_has_no_value():
    with pytest.raises(ValueError, match=r"starts from the lift, where `equation` has no value at .*`log` of -1 is"):
        choose_ranks(Logarithm())
