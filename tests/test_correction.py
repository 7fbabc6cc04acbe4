"""Corrections of an operator that has learned nothing: corners, soft conditions, rough inputs and their nodes."""

from typing import Any

import jax
import numpy as np
import pytest
import scipy.sparse as sparse
import scipy.sparse.linalg
import zoo

from seponet import Domain, NotCalibrated, Problem, Value
from seponet.operator import nodes
from seponet.operator.calibrate import base_of
from seponet.operator.nodes import choose_nodes
from seponet.operator.operator import Operator
from seponet.problems import Burgers, Heat


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


def relative_error(predicted: Any, exact: np.ndarray) -> float:
    return float(np.linalg.norm(np.asarray(predicted) - exact) / np.linalg.norm(exact))


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


def test_problems_without_inputs_are_solved_at_their_corners_too():
    operator = classical(Parallelogram(), {"x": 10, "y": 10})
    places = np.arange(1, 20) / 20
    solved = operator.solve(rtol=2e-3, x=places, y=places)
    assert relative_error(solved, by_differences(160)[7::8, 7::8]) < 2e-3
    assert solved.attrs["reached"] == 1


def test_soft_conditions_are_tested_rows():
    operator = classical(zoo.Poisson(), {"x": 12, "y": 12}, exact=("x",))
    y = np.linspace(0, 2, 6)
    solved = operator.solve(forcing, 1e-5, x=X, y=y)
    np.testing.assert_allclose(solved, solution(X[:, None], y[None]), atol=1e-5)
    assert str(solved.done.to_numpy()) == "corrected"


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


def test_rough_inputs_are_seen_by_the_nodes_of_a_correction():
    """An unseen sine would be an alias of a low one, with the second derivative of a high one."""
    operator = classical(Heat(), {"t": 10, "x": 14}, sensors=80)
    times = T[1:]
    solved = operator.solve(initial, 5e-2, t=times, x=X)
    error = relative_error(solved, np.asarray(decayed(times[:, None], X[None])))
    assert error < 5e-2
    assert error <= float(solved.error)


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


def test_which_models_have_a_basis_to_correct_in():
    tucker: dict[str, Any] = {"decoder": "tucker", "trunk": "classical"}
    assert base_of(zoo.small(Burgers(), exact="all", **tucker)) is not None
    assert base_of(zoo.small(Burgers(), exact=("x",), **tucker)) is not None
    assert base_of(zoo.small(Burgers(), exact=("t",), **tucker)) is None  # periodicity would be a soft row
    assert base_of(zoo.small(Burgers(), exact="all", trunk="classical")) is None
    assert base_of(zoo.small(Burgers(), exact="all", kind="deeponet")) is None
    # Two soft conditions along y leave one of three functions to test the equation with, and none of two.
    assert base_of(zoo.small(zoo.Poisson(), exact=("x",), **tucker)) is not None
    assert base_of(zoo.small(zoo.Poisson(), exact=("x",), rank=2, **tucker)) is None
    with pytest.raises(NotCalibrated, match="call calibrate"):
        make(Burgers()).solve(np.zeros(16))
