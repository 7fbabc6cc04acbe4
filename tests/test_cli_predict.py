"""`seponet predict` with several inputs, functions of one and of two axes and a number, from every kind of file."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zoo

from seponet.cli import main
from seponet.operator.operator import Operator

T, X = np.linspace(0, 1, 6), np.linspace(0, 1, 9)
UNEVEN = X**2
GRID = ("--grid", "t=3,x=5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """An operator with random weights, and the functions u = x^2, x and v = t x^3 with nu = 0.02 in many forms."""
    folder = tmp_path_factory.mktemp("reactor")
    Operator(zoo.small(zoo.Reactor())).save(folder / "run")
    u, v = np.stack([X**2, X]), np.outer(T, X**3)
    np.save(folder / "u.npy", u)
    np.savetxt(folder / "u.csv", u, delimiter=",")
    xr.DataArray(np.outer(T, UNEVEN**3), {"t": T, "x": UNEVEN}, ("t", "x"), name="anything").to_netcdf(folder / "v.nc")
    data = {"u": (("x", "case"), np.stack([UNEVEN**2, UNEVEN], axis=1)), "nu": ((), 0.02)}
    xr.Dataset({**data, "v": (("x", "t"), np.outer(UNEVEN**3, T))}, {"t": T, "x": UNEVEN}).to_netcdf(folder / "all.nc")
    xr.DataArray(v, {"t": T}, ("t", "z"), name="v").to_netcdf(folder / "z.nc")
    xr.DataArray(v, {"t": T, "x": 2 * X}, ("t", "x"), name="v").to_netcdf(folder / "far.nc")
    xr.DataArray(v, {"t": T, "x": X[::-1]}, ("t", "x"), name="v").to_netcdf(folder / "back.nc")
    xr.Dataset({"a": ("x", X), "b": ("x", X)}, {"x": X}).to_netcdf(folder / "ab.nc")
    np.save(folder / "three.npy", np.array([0.02, 0.03, 0.04]))
    np.save(folder / "short.npy", np.ones((3, 2)))
    np.save(folder / "complex.npy", np.ones(9) * 1j)
    np.save(folder / "nan.npy", np.where(X[None] + T[:, None] > 1.9, np.nan, 1.0))
    return folder


def predict(folder: Path, output: str, *inputs: str) -> int:
    given = [part for text in inputs for part in ("--input", text.replace("@", f"{folder}/"))]
    return main(["predict", str(folder / "run"), "--output", str(folder / output), *GRID, *given])


def test_files_of_every_kind_say_the_same(folder, capsys):
    """Polynomials are interpolated exactly, so the form and the points of the data make no difference."""
    assert predict(folder, "s.nc", "u=@u.csv", "v=@v.nc", "nu=0.02") == 0
    shown = capsys.readouterr().out
    assert "function 2, t 3, x 5" in shown
    assert all(name in shown for name in ("equation", "t=0", "x=1 residual"))
    assert predict(folder, "s.npy", "@all.nc") == 0
    with xr.open_dataarray(folder / "s.nc", engine="netcdf4") as s:
        assert s.dims == ("function", "t", "x")
        np.testing.assert_allclose(s["x"], np.linspace(0, 1, 5))
        values = s.to_numpy()
    np.testing.assert_allclose(np.load(folder / "s.npy"), values, rtol=1e-9, atol=1e-12)
    operator = Operator.load(folder / "run")
    given = {"u": [lambda x: x**2, lambda x: x], "v": lambda t, x: t * x**3, "nu": 0.02}
    exact = operator.predict(given, t=np.linspace(0, 1, 3), x=np.linspace(0, 1, 5))
    np.testing.assert_allclose(values, exact.to_numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            ["u=@u.npy", "v=@z.nc", "nu=1"],
            "'v' must have the dimensions t, x and at most one more, for the functions; got",
        ),
        (["u=@u.npy", "v=@far.nc", "nu=1"], "'x' must cover the axis from 0.0 to 1.0; got 0.0 to 2.0"),
        (["u=@u.npy", "v=@back.nc", "nu=1"], "must be finite and increasing; sort the data along that axis"),
        (["u=@u.npy", "v=@ab.nc", "nu=1"], "it has the variables a, b, none called 'v'"),
        (["u=@u.npy", "v=@nan.npy", "nu=1"], "'v' must be finite; got nan"),
        (["u=@short.npy", "v=@v.nc", "nu=1"], "'u': a spline along 'x' needs at least 4 points; got 2"),
        (["u=@complex.npy", "v=@v.nc", "nu=1"], "'u' must be real; got complex numbers"),
        (["u=@u.npy", "v=@v.nc", "nu=@three.npy"], "the same number of functions, or for one; got 2 of u, 3 of nu"),
        (
            ["u=@u.npy", "v=@v.nc", "nu=thick"],
            "'nu' must be a number or a file that ends in .npy, .csv, .nc; got thick",
        ),
        (["u=@u.npy", "v=@v.nc"], "the inputs are u, v, nu: give --input u=FILE --input v=FILE --input nu=FILE"),
        (["u=@u.npy", "w=@v.nc", "v=@v.nc", "nu=1"], "the inputs are u, v, nu: give"),
        (["@u.npy"], "the inputs are u, v, nu; write --input NAME=FILE for each"),
    ],
)
def test_mistakes_are_one_sentence(folder, capsys, inputs, message):
    assert predict(folder, "wrong.nc", *inputs) == 1
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert message in line
    assert captured.out == ""
    assert not (folder / "wrong.nc").exists()
