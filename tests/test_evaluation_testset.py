"""Test sets: made once, verified on load, never shared with training."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from seponet import Domain, Problem, Value, nn
from seponet.evaluation.errors import compare
from seponet.evaluation.report import evaluation_report
from seponet.evaluation.testset import draw_functions, load_testset
from seponet.functions import Scalar
from seponet.operator.class_address import import_file
from seponet.operator.operator import Operator
from seponet.problems import Heat, NavierStokes

POINTS = {"t": np.linspace(0, 1, 5), "x": np.linspace(0, 1, 7)}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SEPONET_CACHE", str(tmp_path))
    return tmp_path / "testsets"


def test_a_test_set_describes_itself_and_comes_from_the_cache_again(cache):
    first = load_testset(Heat(), functions=3, points=POINTS)
    assert len(list(cache.iterdir())) == 1
    assert first.data["s"].dims == ("function", "t", "x")
    assert first.data["u"].dims == ("function", "x")
    assert first.data.attrs["problem"] == "Heat"
    assert first.own_error is not None
    assert first.own_error < 1e-10
    assert "diffusivity" in first.data.attrs["constants"]
    np.testing.assert_allclose(first.data["s"][:, 0], first.data["u"], atol=1e-6)
    modified = next(cache.iterdir()).stat().st_mtime_ns
    again = load_testset(Heat(), functions=3, points=POINTS)
    assert next(cache.iterdir()).stat().st_mtime_ns == modified
    np.testing.assert_array_equal(first.solution("s"), again.solution("s"))


def test_constants_grids_and_counts_have_files_of_their_own(cache):
    load_testset(Heat(), functions=2, points=POINTS)
    load_testset(Heat(diffusivity=0.2), functions=2, points=POINTS)
    load_testset(Heat(), functions=2, points={**POINTS, "t": np.linspace(0, 1, 6)})
    load_testset(Heat(), "validation", functions=2, points=POINTS)
    assert len(list(cache.iterdir())) == 4


def test_damaged_files_are_made_anew(cache, caplog):
    first = load_testset(Heat(), functions=2, points=POINTS)
    (path,) = cache.iterdir()
    path.write_bytes(path.read_bytes()[:2000])
    again = load_testset(Heat(), functions=2, points=POINTS)
    assert "made anew" in caplog.text
    np.testing.assert_array_equal(first.solution("s"), again.solution("s"))


def test_a_changed_number_is_noticed(cache, caplog):
    import xarray as xr

    load_testset(Heat(), functions=2, points=POINTS)
    (path,) = cache.iterdir()
    with xr.open_dataset(path, engine="netcdf4") as file:
        data = file.load()
    data["s"][0, 0, 0] = 3.0
    data.to_netcdf(path, engine="netcdf4")
    assert float(load_testset(Heat(), functions=2, points=POINTS).data["s"][0, 0, 0]) != 3.0
    assert "damaged" in caplog.text


def test_coordinates_and_attributes_are_digested_too(cache, caplog):
    import xarray as xr

    whole = load_testset(Heat(), functions=2, points=POINTS).data
    (path,) = cache.iterdir()
    with xr.open_dataset(path, engine="netcdf4") as file:
        stored = file.load()
    changed = [
        stored.assign_coords(x=stored["x"] + 1e-9),
        stored.assign_attrs(own_error_mean=0.5),
        stored.assign_attrs(solver="paper"),
        stored.rename({"s": "r"}),
        stored.assign(s=stored["s"].assign_attrs(units="m")),
    ]
    for data in changed:
        caplog.clear()
        data.to_netcdf(path, engine="netcdf4")
        again = load_testset(Heat(), functions=2, points=POINTS).data
        assert "damaged" in caplog.text
        xr.testing.assert_identical(again.drop_attrs(), whole.drop_attrs())
    caplog.clear()
    load_testset(Heat(), functions=2, points=POINTS)
    assert "damaged" not in caplog.text


FILLING = """
import sys, time
from pathlib import Path
import numpy as np
import xarray as xr
from seponet.evaluation.testset import load_testset
from seponet.problems import Heat

mine, other, write = Path(sys.argv[1]), Path(sys.argv[2]), xr.Dataset.to_netcdf

def write_together(self, path, **options):
    # Neither puts its file in place before both have written one.
    write(self, path, **options)
    mine.touch()
    ends = time.monotonic() + 120
    while not other.exists():
        assert time.monotonic() < ends
        time.sleep(0.01)

xr.Dataset.to_netcdf = write_together
points = {"t": np.linspace(0, 1, 5), "x": np.linspace(0, 1, 7)}
np.save(mine.with_suffix(".npy"), load_testset(Heat(), functions=3, points=points).solution("s"))
"""


def test_two_processes_that_fill_one_cold_cache_end_with_one_whole_file(cache, tmp_path, caplog):
    root = str(Path(__file__).parents[1])
    marks = [tmp_path / "first", tmp_path / "second"]
    calls = [[sys.executable, "-W", "ignore", "-c", FILLING, *map(str, order)] for order in (marks, marks[::-1])]
    both = [subprocess.Popen(call, env={**os.environ, "PYTHONPATH": root}) for call in calls]
    assert [process.wait(300) for process in both] == [0, 0]
    (file,) = cache.iterdir()
    modified = file.stat().st_mtime_ns
    kept = load_testset(Heat(), functions=3, points=POINTS).solution("s")
    assert not caplog.text  # it is whole, so it is not made anew
    assert file.stat().st_mtime_ns == modified
    for mark in marks:
        np.testing.assert_array_equal(np.load(mark.with_suffix(".npy")), kept)


def test_what_a_killed_process_left_in_the_cache_goes_when_it_is_old(cache):
    cache.mkdir()
    old, new = cache / ".heat-test-0123456789abcdef-x1_y2.nc", cache / ".heat-test-0123456789abcdef-x1_y3.nc"
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (time.time() - 1e6, time.time() - 1e6))
    load_testset(Heat(), functions=2, points=POINTS)
    assert not old.exists()
    assert new.exists()  # somebody may be writing it


def test_a_cache_that_can_not_be_written_costs_no_result(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SEPONET_CACHE", str(tmp_path / "file"))
    assert len(load_testset(Heat(), functions=2, points=POINTS)) == 2
    assert "can't be kept" in caplog.text


def make_decay(rate: float, what: Any = None):
    """Classes of one source, told apart by what their methods have closed over."""

    class Decay(Problem):
        domain = Domain(t=(0, 1))
        inputs = {"u": Scalar(0.5, 1.5)}
        conditions = [Value({"t": 0}, equals="u")]

        def equation(self, s, s_t):
            return s_t + rate * s

        def reference(self, inputs, points):  # pyright: ignore[reportIncompatibleMethodOverride]
            u = np.asarray(inputs["u"].parameters).reshape(-1, 1)
            solved = {"s": u * np.exp(-rate * points["t"])}
            return solved if what is None else what(solved)

    return Decay


def test_classes_that_a_function_made_have_solutions_of_their_own(cache):
    for rate in (1.0, 2.0, 1.0):
        solved = load_testset(make_decay(rate)(), "test", 3).solution("s")
        np.testing.assert_allclose(solved[:, -1] / solved[:, 0], np.exp(-rate), rtol=1e-6)
    assert len(list(cache.iterdir())) == 2
    # What nobody can compare is not kept.
    load_testset(make_decay(1.0, what=CallableThing())(), "test", 3)
    assert len(list(cache.iterdir())) == 2


class CallableThing:
    def __call__(self, solved):
        return solved


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (lambda solved: {"s": np.full_like(solved["s"], np.nan)}, "returned nan for 's' of function 0 at t = 0"),
        (lambda solved: {"s": 1e300 * solved["s"]}, r"returned .*e\+300 for 's'"),
        (lambda solved: {"v": solved["s"]}, "a mapping with the fields s; got v"),
        (lambda solved: {"s": solved["s"].T}, r"of the shape \(3, 101\).*got float64 of the shape \(101, 3\)"),
    ],
)
def test_what_is_no_solution_is_refused_and_not_kept(cache, what, sentence):
    with pytest.raises(ValueError, match=sentence):
        load_testset(make_decay(1.0, what)(), "test", 3)
    assert not cache.exists() or not list(cache.iterdir())


SOURCE = """
import numpy as np
from seponet import Domain, Problem, Value
from seponet.functions import Scalar

RATE = {rate}

class Decay(Problem):
    domain = Domain(t=(0, 1))
    inputs = {{"u": Scalar(0.5, 1.5)}}
    conditions = [Value({{"t": 0}}, equals="u")]
    reference_resolution = 1

    def equation(self, s, s_t):
        return s_t + RATE * s

    def reference(self, inputs, points, resolution):
        u = np.asarray(inputs["u"].parameters).reshape(-1, 1)
        return {{"s": u * np.exp(-RATE * points["t"])}}
"""


@pytest.mark.usefixtures("cache")
def test_solutions_of_a_file_that_has_changed_are_made_anew(tmp_path):
    found = []
    for name, rate in (("one", 1.0), ("two", 2.0)):
        path = tmp_path / f"{name}.py"
        path.write_text(SOURCE.format(rate=rate))
        found.append(load_testset(import_file(path).Decay(), "test", 3))
    first, second = (testset.solution("s")[:, -1] / testset.solution("s")[:, 0] for testset in found)
    np.testing.assert_allclose(first, np.exp(-1.0))
    np.testing.assert_allclose(second, np.exp(-2.0))


def test_a_reference_needs_no_resolution(cache, tmp_path):
    """A test set of its solutions, whose own error nobody can estimate; and again from the cache."""
    path = tmp_path / "exact.py"
    source = SOURCE.format(rate=1.0).replace("    reference_resolution = 1\n", "")
    path.write_text(source.replace("points, resolution)", "points)"))
    problem = import_file(path).Decay()
    assert problem.reference_resolution is None
    for _ in range(2):
        testset = load_testset(problem, "test", 3)
        assert testset.own_error is None
        np.testing.assert_allclose(testset.solution("s")[:, -1] / testset.data["u"], np.exp(-1.0), rtol=1e-6)
    assert len(list(cache.iterdir())) == 1
    sizes: dict[str, Any] = {"rank": 2, "trunk_width": 4, "trunk_depth": 1, "branch_width": 4, "branch_depth": 1}
    report = evaluation_report(Operator(nn.build(problem, key=jax.random.key(0), **sizes)), functions=3)
    assert report["reference_error"] is None
    assert len(report["per_function"]["relative_l2"]) == 3
    assert report["relative_l2_mean"] > 0


@pytest.mark.usefixtures("cache")
def test_a_solver_like_the_papers_is_asked_for_by_kind():
    points = {"t": np.linspace(0, 1, 5), "x": np.linspace(0, 1, 65)}
    coarse, converged = (load_testset(Heat(), functions=2, points=points, kind=k) for k in ("paper", "converged"))
    assert coarse.own_error is None
    assert not np.array_equal(coarse.solution("s"), converged.solution("s"))
    np.testing.assert_allclose(coarse.solution("s"), converged.solution("s"), atol=0.01)
    with pytest.raises(ValueError, match="NavierStokes has no solver like the paper's"):
        load_testset(NavierStokes(), functions=1, kind="paper")


@pytest.mark.usefixtures("cache")
def test_components_stand_between_functions_and_axes():
    points = {"t": np.linspace(0, 0.1, 2), "x": np.linspace(0, 6, 4), "y": np.linspace(0, 6, 5)}
    testset = load_testset(NavierStokes(), functions=3, points=points)
    assert testset.data["u"].dims == ("function", "u_component", "x", "y")
    assert testset.data["u"].shape == (3, 2, 4, 5)
    for i, field in enumerate(("p", "q")):
        np.testing.assert_allclose(testset.solution(field)[:, 0], testset.data["u"][:, i], atol=1e-5)


def test_splits_share_no_function_and_do_not_depend_on_precision():
    test, validation = (draw_functions(Heat(), split, 50)["u"].parameters for split in ("test", "validation"))
    assert test.dtype == np.float32
    assert not np.any(np.isin(np.asarray(test), np.asarray(validation)))
    with jax.enable_x64(False):
        np.testing.assert_array_equal(test, draw_functions(Heat(), "test", 50)["u"].parameters)


@pytest.mark.usefixtures("cache")
def test_progress_is_told():
    seen = []
    load_testset(Heat(), functions=2, points=POINTS, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (2, 2)


def test_metrics_are_the_papers():
    exact = {"p": np.array([[[3.0, 0.0]], [[0.0, 2.0]]]), "q": np.array([[[0.0, 4.0]], [[0.0, 0.0]]])}
    predicted = {
        "p": exact["p"] + np.array([[[0.3, 0.0]], [[0.0, 0.0]]]),
        "q": exact["q"] + np.array([[[0.0, 0.4]], [[0.1, 0.1]]]),
    }
    errors = compare(predicted, exact)
    np.testing.assert_allclose(errors.relative_l2, [0.1, np.sqrt(0.02) / 2])
    np.testing.assert_allclose(errors.rmse, [0.25, np.sqrt(0.005)])
    np.testing.assert_allclose(errors.maximum, [0.4, 0.1])
    assert errors.summary()["relative_l2_mean"] == pytest.approx(np.mean(errors.relative_l2))


def test_shapes_that_differ_are_an_error():
    with pytest.raises(ValueError, match="the reference has"):
        compare({"s": np.zeros((2, 3))}, {"s": np.zeros((2, 4))})
