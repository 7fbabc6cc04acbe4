"""A trial of both ways to train: the one that is ahead is taken, and a run that goes on does not choose again."""

import logging
from dataclasses import replace

import jax
import numpy as np
import pytest
from zoo import Poisson

from seponet import Domain, Periodic, Problem, Value
from seponet.functions import SpectralField
from seponet.runs import start
from seponet.runs.config import RunConfig
from seponet.runs.recipes import load_recipe
from seponet.training import trial
from seponet.training.prepare import prepare
from seponet.training.solved_step import SolvedStep
from seponet.training.trial import choose_way


class Front(Problem):
    domain = Domain(t=(0, 1), x=Periodic(0, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=100.0, tau=5.0, gamma=4.0)}
    conditions = [Value({"t": 0}, equals="u")]

    def equation(self, s, s_t, s_x, s_xx):
        return s_t + s * s_x - 0.05 * s_xx


SMALL = {
    "model.rank": {"t": 4, "x": 7},
    "model.exact": "all",
    "model.branch": "gated",
    "model.invariant": "",
    "model.branch_width": 8,
    "model.branch_depth": 1,
    "train.functions": 20,
    "train.targets.first": 40,
    "train.targets.pool": 100,
    "train.targets.renew": 10,
    "train.sampling.points": {"t": 6, "x": 12},
}


def recipe(**changes):
    return load_recipe("best").changed(SMALL | changes)


def pretend(monkeypatch, errors):
    """Errors that are known, whatever is trained."""
    monkeypatch.setattr(trial._Judge, "__init__", lambda self, step, key: None)
    monkeypatch.setattr(trial._Judge, "__call__", lambda self, step, s: errors[isinstance(step, SolvedStep)])


@pytest.mark.parametrize(("solved", "residuals", "pool"), [(0.1, 0.2, 100), (0.2, 0.1, 0), (np.inf, 0.5, 0)])
def test_the_way_that_is_ahead_is_taken(monkeypatch, caplog, solved, residuals, pool):
    pretend(monkeypatch, {True: solved, False: residuals})
    with caplog.at_level(logging.INFO, "seponet"):
        chosen = choose_way(Front(), recipe(), 0, 1800.0)
    assert (chosen.train.targets.pool, chosen.train.targets.trial) == (pool, False)
    assert isinstance(prepare(Front(), chosen), SolvedStep) == bool(pool)
    assert f"train.targets.pool = {pool}" in caplog.text
    # What was chosen is not tried again.
    pretend(monkeypatch, {True: residuals, False: solved})
    assert choose_way(Front(), chosen, 0, 1800.0) == chosen


def test_no_trial_where_it_says_nothing(monkeypatch):
    monkeypatch.setattr(trial, "prepare", lambda *_: pytest.fail("prepared"))
    assert choose_way(Front(), recipe(), 0, 60.0).train.targets.pool == 100  # too short
    marching = recipe(**{"model.branch": "marching"})
    assert choose_way(Front(), marching, 0, 1800.0).train.targets.pool == 100
    assert choose_way(Front(), load_recipe("standard"), 0, 1800.0) == load_recipe("standard")


def test_the_error_of_a_trial_is_that_on_functions_nobody_has_seen():
    """Poisson's equation: its linear part is all there is, so that solved functions are learned before the first
    step, and residuals are not in a moment."""
    small = recipe(**{"train.targets.pool": 1000, "model.sensors": 12, "model.rank": 6, "train.sampling.points": 12})
    small = small.changed({"train.targets.first": 500})
    solved = prepare(Poisson(), small)
    assert isinstance(solved, SolvedStep)
    judge = trial._Judge(solved, jax.random.key(3))
    assert judge(solved, 0.1) < 0.01 < judge(prepare(Poisson(), small.changed({"train.targets.pool": 0})), 0.1)


def test_a_run_goes_on_the_way_that_was_chosen(monkeypatch):
    monkeypatch.setattr(trial, "prepare", lambda *_: pytest.fail("tried again"))
    asked = RunConfig(Front(), recipe())
    residuals = {"train.targets.pool": 0, "train.targets.trial": False}
    begun = replace(asked, recipe=asked.recipe.changed(residuals)).to_toml()
    found, _ = start._resolved(asked, start.Plan(), begun)
    assert (found.recipe.train.targets.pool, found.recipe.train.targets.trial) == (0, False)
    assert not found.differences(begun, "config.toml")
