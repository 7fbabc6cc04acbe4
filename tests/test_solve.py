"""`seponet.solve` and its command: solutions to a tolerance without a network, and what is said when it is not met."""

import json
import logging
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
import zoo
from scipy.integrate import solve_ivp
from scipy.sparse import coo_array, diags_array
from scipy.sparse.linalg import spsolve

import seponet
from seponet import Domain, Periodic, Problem, Value
from seponet.cli import main
from seponet.functions import GaussianField, Positive, Sampled, Scalar
from seponet.functions.interpolant import interpolate
from seponet.operator.callables import from_half_the_samples, sample

T = np.linspace(0, 1, 9)


class Ramp(Problem):
    r"""$s_t = u(t)$ from zero: the integral of its input."""

    domain = Domain(t=(0, 1))
    inputs = {"u": GaussianField(domain, length_scale=0.3)}
    conditions = [Value({"t": 0})]

    def equation(self, s_t, u):
        return s_t - u


class Bratu(Problem):
    r"""$s_{xx} + a e^s = 0$ between zeros: two solutions for a < 3.51, and none beyond."""

    domain = Domain(x=(0, 1))
    inputs = {"a": Scalar(0.5, 5.0)}
    conditions = [Value({"x": (0, 1)})]

    def equation(self, s, s_xx, a):
        return s_xx + a * jnp.exp(s)


class Cooling(Problem):
    r"""$s_t = s_{xx} / 10$ with cold walls, whatever the initial state."""

    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {"u": GaussianField(domain["x"], length_scale=0.5)}
    conditions = [Value({"t": 0}, equals="u"), Value({"x": (0, 1)})]

    def equation(self, s_t, s_xx):
        return s_t - 0.1 * s_xx


@pytest.fixture
def few(monkeypatch):
    """No more than two or three sizes are tried where the last one is no better than the first."""
    monkeypatch.setattr("seponet.discretise.resolution.MOST_ALONG", 24)


def relative(values: Any, exact: Any) -> float:
    return float(np.linalg.norm(values - exact) / np.linalg.norm(exact))


def test_an_ordinary_equation_against_an_integrator():
    s = seponet.solve(zoo.Pendulum, [0.5, 2.0], 1e-6, t=3 * T, quiet=True)
    assert s.dims == ("function", "t")
    for angle, values, error in zip((0.5, 2.0), s, s.error, strict=True):
        exact = solve_ivp(lambda _, y: (y[1], -np.sin(y[0])), (0, 3), (angle, 0), t_eval=3 * T, rtol=1e-11, atol=1e-12)
        assert relative(values, exact.y[0]) < 1e-8
        assert float(error) < 1e-6
    assert (s.attrs["reached"], s.attrs["functions"], s.attrs["reason"]) == (2, 2, "")


def test_forms_of_an_input_say_the_same_and_a_file_keeps_all(tmp_path):
    """Poisson's equation with an eigenfunction: called, and labelled on points of its own."""
    x, y = np.linspace(0, 1, 60) ** 1.3, np.linspace(0, 2, 80)
    source = xr.DataArray(np.outer(np.sin(np.pi * x), np.sin(np.pi * y / 2)), {"x": x, "y": y}, ("x", "y"))
    points: dict[str, Any] = {"x": np.linspace(0, 1, 11), "y": np.linspace(0, 2, 7)}
    exact = -np.outer(np.sin(np.pi * points["x"]), np.sin(np.pi * points["y"] / 2)) / (1.25 * np.pi**2)
    called = seponet.solve(zoo.Poisson(), lambda x, y: np.sin(np.pi * x) * np.sin(np.pi * y / 2), quiet=True, **points)
    labelled = seponet.solve(zoo.Poisson(), source, quiet=True, **points)
    for s in (called, labelled):
        assert s.dims == ("x", "y")
        assert float(s.error) < 1e-4
        assert relative(s, exact) < 1e-4
    labelled.to_netcdf(tmp_path / "s.nc", engine="netcdf4")
    with xr.open_dataarray(tmp_path / "s.nc", engine="netcdf4") as read:
        xr.testing.assert_identical(read, labelled)
        assert read.attrs["trial_functions"].startswith("x=")


def test_a_soliton():
    t, x = np.linspace(0, 0.5, 6), np.linspace(-1, 1, 41)
    exact = 0.5 / np.cosh(5 * (x - t[:, None])) ** 2
    # Its images beyond the period are what the wave meets there.
    exact += sum(0.5 / np.cosh(5 * (x - t[:, None] + shift)) ** 2 for shift in (-2, 2))
    s = seponet.solve(zoo.KdV, exact[0][:-1], 2e-3, t=t, x=x, quiet=True)
    assert float(s.error) < 2e-3
    assert relative(s, exact) < 2e-3


def test_a_system_against_the_method_of_lines():
    n, t = 201, np.linspace(0, 1, 5)
    x = np.linspace(0, 1, n)
    source, square = np.sin(3 * x), (n - 1) ** 2

    def slope(_: float, state: np.ndarray) -> np.ndarray:
        p, q = state[:n], state[n:]
        ghost = np.concatenate([q[1:2], q, q[-2:-1]])
        p_xx = square * np.concatenate([[0], np.diff(p, 2), [0]])
        p_t = 0.05 * p_xx + p**2 * q - 2 * p + source
        p_t[[0, -1]] = 0
        return np.concatenate([p_t, 0.05 * square * np.diff(ghost, 2) + p - p**2 * q])

    start = np.concatenate([np.full(n, 0.5), np.ones(n)])
    # Radau: SciPy's BDF reads memory that it never wrote, and warns where that happens to hold no numbers.
    exact = solve_ivp(slope, (0, 1), start, "Radau", t, rtol=1e-6, atol=1e-8).y.reshape(2, n, 5)
    s = seponet.solve(zoo.Brusselator, lambda x: np.sin(3 * x), 2e-3, t=t, x=x, quiet=True)
    assert isinstance(s, xr.Dataset)
    assert list(s.data_vars) == ["p", "q"]
    assert s.attrs["reached"] == 1
    assert relative(np.stack([s.p, s.q]), np.swapaxes(exact, 1, 2)) < 2e-3


@pytest.mark.usefixtures("few")
def test_not_reached_is_an_answer_with_a_reason(caplog):
    """A kink: no smooth functions of time hold its integral to nine digits."""
    s = seponet.solve(Ramp, lambda t: np.abs(t - 0.3), 1e-9, t=T, quiet=True)
    exact = (np.abs(T - 0.3) * (T - 0.3) + 0.09) / 2
    assert relative(s, exact) < 5e-3
    assert 1e-9 < float(s.error) < 1e-2
    assert s.attrs["reached"] == 0
    assert "the input u is rough along t" in s.attrs["reason"]
    (warning,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert "is not reached for 1 of 1 functions" in warning.getMessage()
    assert s.attrs["reason"] in warning.getMessage()


@pytest.mark.usefixtures("few")
def test_what_has_no_solution_is_nan_and_told(caplog):
    s = seponet.solve(Bratu, [1.0, 5.0], 1e-4, x=0.5, quiet=True)
    # 2 log cosh(b) at the centre, where b = sqrt(1/8) cosh(b).
    b = 0.0
    for _ in range(100):
        b = np.sqrt(1 / 8) * np.cosh(b)
    np.testing.assert_allclose(s[0], 2 * np.log(np.cosh(b)), rtol=1e-4)
    assert np.isnan(s[1])
    assert float(s.error[0]) < 1e-4
    assert np.isinf(s.error[1])
    assert s.attrs["reached"] == 1
    assert "1 of them have no solution and are NaN" in caplog.text
    assert "Newton's method did not converge for 1 of 2 functions" in s.attrs["reason"]


def test_conditions_that_contradict_each_other_are_soft_or_refused(caplog):
    caplog.set_level(logging.INFO)
    x, t = np.linspace(0, 1, 33), np.linspace(0, 1, 82)[1:-1]
    s = seponet.solve(Cooling, np.ones(17), 0.1, t=t, x=x)
    k = np.pi * np.arange(1, 200, 2)[:, None, None]
    exact = np.sum(4 / k * np.exp(-0.1 * k**2 * t[:, None]) * np.sin(k * x), axis=0)
    assert relative(s, exact) < 2 * float(s.error) < 0.2
    assert s.attrs["exact"] == "t"
    assert "the conditions on x are imposed softly" in caplog.text
    assert "they differ by 100%" in caplog.text
    with pytest.raises(ValueError, match=r"contradict each other: .*; leave out x, or leave exact to the library"):
        seponet.solve(Cooling, np.ones(17), exact="all", quiet=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": None}, "the inputs are u; got none"),
        (
            {"inputs": np.ones((2, 3, 4))},
            r"'u' must have the axes \[t\] or \[functions, t\]; got the shape \(2, 3, 4\)",
        ),
        ({"tolerance": 2.0}, "tolerance is a relative error between 0 and 1, for instance 1e-4; got 2.0"),
        ({"y": 0.5}, "there is no axis 'y'; the axes are t"),
        ({"t": 2.0}, r"the coordinate 't' must lie in \[0, 1\]; got 2"),
        ({"constants": {"nu": 1.0}}, "Ramp has no constant 'nu'"),
        ({"exact": ["z"]}, 'exact is "all", "none" or some of the axes t; got \'z\''),
        ({"problem": "burger"}, "did you mean 'burgers'"),
    ],
)
def test_mistakes_are_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        seponet.solve(**{"problem": Ramp, "inputs": np.ones(9), "quiet": True, **arguments})


SOURCE = """
from seponet import Domain, Periodic, Problem, Value
from seponet.functions import Scalar

class Decay(Problem):
    rate: float = 1.0
    domain = Domain(t=(0, 1))
    inputs = {"a": Scalar(0.5, 1.5)}
    conditions = [Value({"t": 0}, equals="a")]

    def equation(self, s, s_t):
        return s_t + self.rate * s
"""


@pytest.fixture
def decay(tmp_path) -> str:
    (tmp_path / "decay.py").write_text(SOURCE)
    return f"{tmp_path / 'decay.py'}:Decay"


def test_the_command_writes_a_file_and_a_table(decay, tmp_path, capsys):
    output = tmp_path / "s.nc"
    call = ["solve", decay, "--input", "0.5,1.5", "--output", str(output), "--grid", "t=5", "--set", "constants.rate=2"]
    assert main([*call, "--tolerance", "1e-6"]) == 0
    captured = capsys.readouterr()
    assert f"{output}: function 2, t 5" in captured.out
    assert captured.out.count(" reached") == 2
    assert "2 of 2 functions solved" in captured.err
    with xr.open_dataarray(output, engine="netcdf4") as s:
        np.testing.assert_allclose(s, np.outer([0.5, 1.5], np.exp(-2 * s["t"])), rtol=1e-6)
        assert s.attrs["tolerance"] == 1e-6
    before = output.read_bytes()
    assert main(call) == 1
    assert "exists already; choose another --output, or replace it with --overwrite" in capsys.readouterr().err
    assert output.read_bytes() == before
    assert main([*call, "--overwrite", "--json", "--quiet"]) == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert captured.err == ""
    assert (told["reached"], told["functions"], len(told["errors"])) == (2, 2, 2)


@pytest.mark.usefixtures("few")
def test_the_command_ends_with_another_code_if_the_tolerance_is_not_reached(tmp_path, capsys):
    np.save(tmp_path / "u.npy", np.abs(np.linspace(0, 1, 201) - 0.3))
    call = ["solve", f"{Path(__file__)}:Ramp", "--input", str(tmp_path / "u.npy"), "--tolerance", "1e-9", "--quiet"]
    assert main([*call, "--output", str(tmp_path / "s.npy")]) == 3
    captured = capsys.readouterr()
    assert "not reached" in captured.out
    assert "is not reached for 1 of 1 functions" in captured.err
    np.testing.assert_allclose(np.load(tmp_path / "s.npy")[-1], (0.49 + 0.09) / 2, rtol=1e-3)


def test_mistakes_of_the_command_are_one_sentence(decay, tmp_path, capsys):
    for more, message in (
        (["--output", "s.png"], "--output must end in .nc or .npy"),
        (["--set", "train.steps=3"], "a solution depends on constants only, for instance constants.nu=0.02"),
        (["--input", "b=3"], "the inputs are a: give --input a=FILE"),
        (["--grid", "x=3"], "--grid names x; the axes are t"),
    ):
        assert main(["solve", decay, "--input", "a=1.0", "--output", str(tmp_path / "s.nc"), *more]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
    assert not (tmp_path / "s.nc").exists()


def test_what_a_callable_does_between_its_samples_is_part_of_the_error(caplog):
    """A jump at any place of a spacing, for which the integral is known; and waves that all samples are zeros of."""
    jumps = [lambda t, at=at: np.sign(t - at) for at in (0.3, 0.3006, 0.3011, 0.3017)]
    s = seponet.solve(Ramp, jumps, 1e-5, t=T, quiet=True)
    for at, values, announced in zip((0.3, 0.3006, 0.3011, 0.3017), s, s.error, strict=True):
        true = relative(values, np.abs(T - at) - at)
        assert true < float(announced) < 0.05
    assert s.attrs["reached"] < 4
    assert "more than its 513 samples show" in s.attrs["reason"]
    assert "between them (513) it differs by" in caplog.text

    lost = seponet.solve(Ramp, lambda t: np.sin(512 * np.pi * t), 1e-2, t=T, quiet=True)
    assert lost.attrs["reached"] == 0
    assert float(lost.error) > 0.9


def test_a_kink_that_is_small_enough_is_no_matter(caplog):
    kink = seponet.solve(Ramp, lambda t: np.abs(t - 0.3007), 1e-3, t=T, quiet=True)
    exact = 0.5 * (np.sign(T - 0.3007) * (T - 0.3007) ** 2 + 0.3007**2)
    assert relative(kink, exact) < float(kink.error) < 1e-3
    assert kink.attrs["reason"] == ""
    assert not caplog.records


@pytest.mark.parametrize("components", [None, 2])
def test_halved_samples_are_those_of_every_second_point(components):
    """On a periodic axis and another, for one and for several components."""
    periodic = Domain(x=Periodic(0, 1), y=(0, 2))
    space = Sampled(periodic, np.ones((2, *(() if components is None else (components,)), 8, 9)))
    counts = {"x": 64, "y": 65}
    waves = [lambda x, y: np.sin(2 * np.pi * x) * y**2, lambda x, y: np.cos(40 * np.pi * x) * np.abs(y - 0.77)]
    given = waves if components is None else [lambda x, y: np.stack([w(x, y) for w in waves])]
    values = np.stack([sample("u", space, counts, w) for w in given])
    read = interpolate(space, values)
    halved = from_half_the_samples(space, counts, read)
    assert halved.space == read.space
    few = space.sensors({"x": 32, "y": 33})
    np.testing.assert_allclose(halved(few), read(few), atol=1e-5)
    smooth, rough = np.abs(halved(space.sensors(counts)) - read(space.sensors(counts))).reshape(2, -1).max(1)
    assert smooth < 1e-5
    assert rough > 0.1  # twenty waves are too many for 32 points


def test_a_spike_at_a_sample_is_told_and_no_number_that_is_not_finite(caplog):
    """It is zero beside the samples, so that nothing there is relative to anything."""
    s = seponet.solve(Ramp, lambda t: np.where(t == 0.5, 1.0, 0.0), 1e-2, t=T, quiet=True)
    assert s.attrs["reached"] == 0
    assert "it differs by" in caplog.text


def test_a_batch_of_functions_is_no_callable():
    """It can be called, but with locations; and it is known everywhere, so that nothing is sampled."""
    drawn = Ramp().sample(jax.random.key(0), 2)
    s = seponet.solve(Ramp, drawn, 1e-4, t=T, quiet=True)
    assert s.attrs["reached"] == 2


class Inclusion(Problem):
    r"""$-\nabla \cdot (a \nabla s) = 1$ between zeros."""

    domain = Domain(x=(0, 1), y=(0, 1))
    inputs = {"a": Positive(GaussianField(domain, length_scale=0.3))}
    conditions = [Value({"x": (0, 1)}), Value({"y": (0, 1)})]

    def equation(self, s_x, s_y, s_xx, s_yy, a, a_x, a_y):
        return a * (s_xx + s_yy) + a_x * s_x + a_y * s_y + 1


def finite_volumes(a: np.ndarray) -> np.ndarray:
    """The same by finite volumes, with harmonic means of `a` at faces: at the middles of `n` x `n` cells."""
    n = len(a)
    number, rows, columns, values = np.arange(n * n).reshape(n, n), [], [], []
    diagonal = np.zeros((n, n))
    for axis in (0, 1):
        one, two = (np.take(a, range(k, n - 1 + k), axis) for k in (0, 1))
        flux = 2 * one * two / (one + two)
        ends = np.moveaxis(diagonal, axis, 0), np.moveaxis(a, axis, 0)
        ends[0][:-1] += np.moveaxis(flux, axis, 0)
        ends[0][1:] += np.moveaxis(flux, axis, 0)
        ends[0][0] += 2 * ends[1][0]
        ends[0][-1] += 2 * ends[1][-1]
        here, there = (np.take(number, range(k, n - 1 + k), axis).ravel() for k in (0, 1))
        rows += [here, there]
        columns += [there, here]
        values += [-flux.ravel()] * 2
    matrix = coo_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), (n * n, n * n))
    matrix = matrix.tocsc() + diags_array(diagonal.ravel(), format="csc")
    return np.asarray(spsolve(matrix, np.full(n * n, 1 / n**2))).reshape(n, n)


@pytest.mark.parametrize("form", ["a callable", "an array"])
def test_a_coefficient_that_jumps_is_announced_with_no_less_than_its_error(form):
    """The first two bases are nearer to each other than to the solution, whose kink takes many functions."""

    def disc(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(np.hypot(x - 0.4, y - 0.55) < 0.2, 5.0, 1.0)

    middles, ends = (np.arange(192) + 0.5) / 192, np.linspace(0, 1, 129)
    given = disc if form == "a callable" else disc(*np.meshgrid(ends, ends, indexing="ij"))
    s = seponet.solve(Inclusion, given, 1e-2, x=middles, y=middles, quiet=True)
    exact = finite_volumes(disc(*np.meshgrid(middles, middles, indexing="ij")))
    assert relative(s, exact) < float(s.error)
