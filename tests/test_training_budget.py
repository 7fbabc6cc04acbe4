"""Runs that are given time or a tolerance: their length, their end, and what is said of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_training_targets import Front, recipe, same

import seponet
from seponet.nn import build
from seponet.problems import PROBLEMS
from seponet.runs.config import RunConfig
from seponet.runs.train import run
from seponet.runs.verdict import NotTrained, judge
from seponet.training.config import TrainConfig
from seponet.training.loop import Trainer, prepare, train_model
from seponet.training.measured import Measured
from seponet.training.optimizers import cosine
from seponet.training.pace import Pace
from seponet.training.recipe import Recipe
from seponet.training.result import TrainingResult


def test_the_rate_is_held_as_long_as_the_length_is_open():
    steps = np.arange(40)
    short, long = (np.asarray(cosine(1.0, n, hold=0.4)(steps)) for n in (100, 10_000))
    assert np.all(short == 1.0)
    assert np.all(long == 1.0)
    falling = cosine(1.0, 100, hold=0.4)
    assert np.allclose(np.asarray(falling(np.array([70, 100]))), [0.5, 0.0], atol=1e-6)
    inside = jax.jit(lambda n, step: cosine(1.0, n, hold=0.4)(step))(jnp.asarray(100), jnp.asarray(70))
    assert float(inside) == pytest.approx(0.5)


def test_a_length_ends_with_the_budget_and_keeps_to_the_steps_that_were_taken():
    pace = Pace(hold=0.4)
    pace.note(1, 20.0)  # the first block compiles
    assert pace.length(1, 20.0, 120.0, 10) is None
    # Ten steps a second: a thousand in the hundred seconds that are left, of which the first 400 are held.
    assert pace.length(301, 50.0, 120.0, 50) is None
    assert pace.length(381, 58.0, 120.0, 50) == 1001
    # A budget that is nearly over: the steps so far are the held part of the shortest run.
    assert pace.length(381, 119.0, 120.0, 50) == 953


def test_an_error_that_falls_no_more_has_settled():
    def settled(errors: list[tuple[int, float]]) -> bool:
        measured = Measured()
        for step, error in errors:
            measured.note(step, error, None)
        return measured.has_settled(0.1)

    falling = [(10 * i, 1.0 / i) for i in range(1, 12)]
    assert not settled(falling)
    assert settled([*falling[:5], *((10 * i, 0.19) for i in range(6, 12))])
    assert not settled(falling[:3])


def test_a_timed_run_is_the_run_of_its_length():
    timed = recipe().timed().changed({"train.seconds": 1.0})
    assert timed.train.steps == "auto"
    first = train_model(Front(), timed, quiet=True)
    assert first.end == "complete"
    assert first.steps == first.length
    again = train_model(Front(), timed.changed({"train.steps": first.steps}), quiet=True)
    assert same(first.model, again.model)


def test_schedules_without_an_end_are_not_timed():
    endless = recipe().changed({"train.optimizer.schedule": "exponential"})
    assert endless.timed() == endless
    with pytest.raises(ValueError, match="ends a schedule with the budget"):
        recipe().changed({"train.steps": "auto"})


def test_a_tolerance_ends_a_run():
    errors = iter([0.5, 0.2, 0.05, 0.01])
    quick = recipe().changed({"train.tolerance": 0.1, "train.validate": 0.0, "train.steps": 10_000})
    result = train_model(Front(), quick, validate=lambda _: next(errors), quiet=True)
    assert (result.end, result.error) == ("tolerance", 0.05)
    assert result.steps < 10_000
    assert not result.interrupted


def test_a_run_whose_error_is_that_of_its_basis_ends_early(caplog):
    """And the same run with errors that the network could still lower takes the time that it was given."""
    caplog.set_level("INFO", "seponet")
    timed = recipe().timed().changed({"train.seconds": 20.0, "train.validate": 0.0})
    result = train_model(Front(), timed, validate=lambda _: 1000.0, quiet=True)
    assert result.end == "complete"
    assert result.history[-1]["seconds"] - result.history[0]["seconds"] < 10
    assert f"{result.steps} steps are enough: the error is that of the basis" in caplog.text
    again = train_model(Front(), timed.changed({"train.steps": result.steps}), quiet=True)
    assert same(result.model, again.model)
    caplog.clear()
    train_model(Front(), timed.changed({"train.seconds": 1.0}), validate=lambda _: 1e-9, quiet=True)
    assert "end with the budget" in caplog.text


def test_parameters_that_were_better_are_given_back(tmp_path, caplog):
    """A run that gets worse at its end gives back what it had; also if it was interrupted in between."""
    short = recipe().changed({"train.validate": 0.0, "train.checkpoint": 0.0, "train.steps": 30, "train.keep": 1})
    step = prepare(Front(), short)
    measured = []

    def validate(model):
        measured.append(model)
        return 0.1 if len(measured) == 2 else 0.5

    trainer = Trainer(step, folder=tmp_path, validate=validate, quiet=True)
    result = trainer.train()
    assert "was 10% before and is 50% now" in caplog.text
    assert result.error == 0.1
    assert same(result.model, measured[1])
    resumed = Trainer(step, folder=tmp_path, validate=lambda _: 0.5, quiet=True)
    assert same(resumed.train(resume=True).model, measured[1])


MODEL = build(Front(), recipe().model, key=jax.random.key(0))


def _result(steps=100, error=None, loss=1.0, **more):
    return TrainingResult(MODEL, steps, 12.0, error, [{"loss": loss, **more}])


@pytest.mark.parametrize(
    ("result", "known", "success", "trained", "words"),
    [
        (_result(steps=0), {}, False, False, "not a single step was taken: the 12 s went into"),
        (_result(error=0.5), {"lift": 0.4}, False, False, "no better than 40% of the data of the conditions alone"),
        (_result(error=0.2), {"lift": 0.4}, False, True, "do not use this operator as it is; the branch limits it"),
        (_result(steps=1, error=0.02), {"lift": 0.4}, True, True, "time limits it: the 12 s left room for 1 steps"),
        (_result(error=0.02), {"lift": 0.4}, True, True, "the validation error is 2%; the branch limits it"),
        (
            _result(error=0.02),
            {"lift": 0.4, "floor": 0.015},
            True,
            True,
            "the basis limits it, whose own error is 1.5%",
        ),
        (_result(error=0.02, loss=1e-6, fresh=0.02), {"lift": 0.4}, True, True, "functions limit it .* right to 0.1%"),
        (_result(error=0.02, loss=1e-6, fresh=0.005), {"lift": 0.4}, True, True, "solutions are learned to 0.5%"),
        (_result(), {}, True, True, "its error is not known"),
        (_result(), {"floor": 0.3}, False, True, "its discretisation alone is off by 30%"),
    ],
)
def test_a_verdict_says_what_limits_a_run(result, known, success, trained, words):
    verdict = judge(result, TrainConfig(), **known)
    assert (verdict.success, verdict.trained) == (success, trained)
    assert np.all([word in verdict.reason for word in words.split(" .* ")])


def test_a_tolerance_is_reached_or_not():
    config = TrainConfig(tolerance=0.01)
    assert judge(_result(error=0.009), config, lift=1.0).success
    missed = judge(_result(error=0.02), config, lift=1.0)
    assert not missed.success
    assert "the validation error is 2%, not 1%" in missed.reason


def test_a_run_that_learned_nothing_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("SEPONET_CACHE", str(tmp_path / "cache"))
    # No step in a budget that is over before the first; and steps too short to move anything.
    with pytest.raises(NotTrained, match="not a single step") as raised:
        seponet.train(Front(), recipe(), budget=1e-3, quiet=True, calibration=0)
    assert isinstance(raised.value.operator, seponet.Operator)
    still = recipe().changed({"train.optimizer.rate": 1e-12, "train.steps": 2})
    outcome = run(RunConfig.make(Front(), still), quiet=True, calibration=0)
    assert not outcome.verdict.trained
    assert "no better than" in outcome.verdict.reason


def test_every_problem_has_the_three_recipes():
    for name in PROBLEMS:
        for label in ("quick", "standard", "best"):
            assert isinstance(RunConfig.make(name, label).recipe, Recipe)


def test_the_length_of_a_run_is_resumed(tmp_path):
    """A run that is interrupted after its length was chosen keeps it."""
    timed = recipe().timed().changed({"train.seconds": 0.5, "train.checkpoint": 0.0})
    step = prepare(Front(), timed)
    trainer = Trainer(step, folder=tmp_path, quiet=True)
    whole = trainer.train()
    state = eqx.tree_at(lambda s: s.length, step.start(), jnp.asarray(7))
    restored = trainer.checkpoints.restore(state) if trainer.checkpoints else None
    assert restored is not None
    assert int(restored[1].length) == whole.length
