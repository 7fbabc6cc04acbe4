"""References by the library's own discretisation, for problems that have no solver: labelled, cached, or refused."""

import json
import logging
from typing import Any

import jax
import numpy as np
import pytest

import seponet
from seponet import nn
from seponet.cli import main
from seponet.evaluation.own_reference import NoReference, check_usable
from seponet.evaluation.report import evaluation_report
from seponet.evaluation.testset import find_testset, load_testset
from seponet.operator.class_address import import_file
from seponet.operator.operator import Operator
from seponet.problems import DiffusionReaction

SOURCE = """
import jax.numpy as jnp
from seponet import Domain, Problem, Value
from seponet.functions import Scalar


class Decay(Problem):
    rate: float = 1.0
    domain = Domain(t=(0, 1))
    inputs = {"a": Scalar(0.5, 1.5)}
    conditions = [Value({"t": 0}, equals="a")]
    grid_points = 11

    def equation(self, s, s_t):
        return s_t + self.rate * s


class Bratu(Problem):
    domain = Domain(x=(0, 1))
    inputs = {"a": Scalar(1.0, 6.0)}
    conditions = [Value({"x": (0, 1)})]
    grid_points = 11

    def equation(self, s, s_xx, a):
        return s_xx + a * jnp.exp(s)
"""
SMALL: dict[str, Any] = {"rank": 2, "trunk_width": 4, "trunk_depth": 1, "branch_width": 4, "branch_depth": 1}
TINY = {"train.steps": 2, "train.functions": 2, "train.sampling.points": 4, "model.rank": 3, "model.branch_width": 4}


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.setenv("SEPONET_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine.py").write_text(SOURCE)
    return import_file(tmp_path / "mine.py")


def test_a_problem_without_a_solver_has_a_test_set_that_says_so(module, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    testsets = [load_testset(module.Decay(rate=2.0), "test", 3) for _ in range(2)]
    for testset in testsets:
        exact = np.outer(testset.data["a"], np.exp(-2 * testset.points["t"]))
        np.testing.assert_allclose(testset.solution("s"), exact, rtol=1e-4)
        assert testset.kind == "own"
        assert testset.own_error is not None
        assert np.max(np.abs(testset.solution("s") / exact - 1)) < testset.own_error + 1e-6
    assert "reference: own discretisation, error" in caplog.text
    # The second one came from the cache.
    assert caplog.text.count("solving 3 functions with the library's own discretisation") == 1
    assert len(list((tmp_path / "cache" / "testsets").iterdir())) == 1
    operator = Operator(nn.build(module.Decay(rate=2.0), key=jax.random.key(0), **SMALL))
    report = evaluation_report(operator, functions=3)
    assert report["reference"] == "own"
    assert report["reference_error"] == testsets[0].own_error
    assert len(report["per_function"]["relative_l2"]) == 3


def test_own_training_is_validated_and_evaluated(module, tmp_path, capsys):
    """From the file of a PDE alone: no solver was written."""
    out = tmp_path / "run"
    seponet.train(module.Decay, out=out, functions=2, figures=False, quiet=True, set=TINY)
    entries = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert entries[-1]["validation"] > 0
    report = json.loads((out / "report.json").read_text())
    assert report["validation_relative_l2"] > 0
    assert (report["reference"], report["functions"]) == ("own", 2)
    assert main(["evaluate", str(out), "--functions", "2"]) == 0
    assert "reference: own discretisation, error" in capsys.readouterr().out


def test_what_can_not_be_solved_is_no_test_set_and_told(module, caplog, monkeypatch):
    monkeypatch.setattr("seponet.discretise.resolution.MOST_ALONG", 24)
    for _ in range(2):
        assert find_testset(module.Bratu(), "validation", 4) is None
    assert caplog.text.count("errors are not measured: Bratu has no method `reference`") == 2
    # That there is no solution was found out once.
    with pytest.raises(NoReference, match=r"leaves [1-4] of 4 functions unsolved: Newton's method did not converge"):
        load_testset(module.Bratu(), "validation", 4)


def test_errors_of_more_than_two_per_cent_are_no_reference(module):
    usable = {"own_error_mean": 0.019, "own_error_functions": 3, "unsolved": 0, "reason": "a kink"}
    check_usable(module.Decay(), usable)
    with pytest.raises(NoReference, match=r"discretisation has a mean error of 2\.1%: a kink; give it a method"):
        check_usable(module.Decay(), {**usable, "own_error_mean": 0.021})


@pytest.mark.usefixtures("module")
def test_any_problem_can_be_measured_against_the_own_discretisation():
    """Also one that has a solver: the two agree within the error that is told."""
    points = {"t": np.linspace(0, 1, 5), "x": np.linspace(0, 1, 17)}
    own, exact = (
        load_testset(DiffusionReaction(), "validation", 2, points=points, kind=kind) for kind in ("own", "converged")
    )
    assert (own.kind, exact.kind) == ("own", "converged")
    difference = np.linalg.norm(own.solution("s") - exact.solution("s")) / np.linalg.norm(exact.solution("s"))
    assert difference < 2 * own.data.attrs["own_error_max"] < 2e-3
