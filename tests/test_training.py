"""Training: reproducible, restartable, never silently ruined."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import AllenCahn, KdV, Plate

from seponet import Grid, nn
from seponet.evaluation.errors import predict_fields
from seponet.losses.pointwise import lift_losses
from seponet.losses.supervised import Data
from seponet.runs.recipes import PACKAGED, load_recipe
from seponet.training.checkpoints import Checkpoints
from seponet.training.diagnosis import Diverged
from seponet.training.loop import Trainer, prepare, train_model
from seponet.training.recipe import Recipe
from seponet.training.state import Record
from seponet.training.step import TrainStep

SMALL = {
    "model.rank": 4,
    "model.trunk_width": 8,
    "model.trunk_depth": 1,
    "model.branch_width": 8,
    "model.branch_depth": 1,
    "model.sensors": 8,
    "train.functions": 4,
    "train.steps": 12,
    "train.slab": 24,
    "train.sampling": {"points": 6, "method": "stratified", "resample": 3},
}


def recipe(**changes):
    return Recipe().changed({**SMALL, **{key.replace("__", "."): value for key, value in changes.items()}})


def arrays(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(arrays(a), arrays(b), strict=True))


def stepper(problem, **changes):
    made = recipe(**changes)
    model = nn.build(problem, made.model, key=jax.random.key(1))
    return TrainStep(model, made.train, made.train.slab, jax.random.key(2))


@pytest.fixture(scope="module")
def plain():
    return stepper(AllenCahn())


@pytest.mark.thorough
def test_a_block_equals_its_steps_one_by_one(plain):
    whole, _ = plain.run(plain.start(), jnp.asarray(7))
    parts = plain.start()
    for count in (1, 2, 4):
        parts, record = plain.run(parts, jnp.asarray(count))
    assert int(whole.step) == 7
    assert bool(record.finite)
    assert same(whole, parts)


@contextmanager
def compilations():
    """What is compiled in the block."""
    compiled: list[str] = []

    def listener(event: str, duration_secs: float, **_: str | int) -> None:
        del duration_secs
        if "backend_compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        yield compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)


def test_a_run_compiles_once():
    fresh = stepper(AllenCahn(), train__functions=3)
    state, _ = fresh.run(fresh.start(), jnp.asarray(1))
    with compilations() as compiled:
        for count in (1, 5, 3):
            state, _ = fresh.run(state, jnp.asarray(count))
    assert compiled == []


def test_asking_for_the_memory_of_a_step_compiles_it_for_the_run():
    fresh = stepper(AllenCahn(), train__functions=5)
    state, count = fresh.start(), jnp.asarray(1)
    with compilations() as first:
        assert fresh.memory() > 0
    with compilations() as second:
        fresh.run(state, count)
    assert first
    assert second == []


def test_functions_and_points_change_every_few_steps_and_only_then(plain):
    state = plain.start()
    at = [eqx.tree_at(lambda s: s.step, state, jnp.asarray(n)) for n in (0, 2, 3)]
    first, still, later = (plain.batch(s) for s in at)
    assert same(first, still)
    assert not np.array_equal(first.collocation.where["x"], later.collocation.where["x"])
    assert not np.array_equal(arrays(first.inputs)[0], arrays(later.inputs)[0])


def test_the_loss_falls_and_terms_are_logged():
    result = train_model(AllenCahn(), recipe(train__steps=150), quiet=True)
    losses = [entry["loss"] for entry in result.history if entry["terms"]]
    assert set(result.history[0]["terms"]) == {"equation", "t=0", "derivative x=0", "derivative x=1"}
    assert losses[-1] < 0.2 * losses[0]


def test_normalisation_makes_small_functions_count():
    both = stepper(KdV(), model__exact="all", train__sampling__resample=1)
    batch = both.batch(both.start())
    inputs = {"u": eqx.tree_at(lambda f: f.parameters, batch.inputs["u"], 1e-3 * batch.inputs["u"].parameters)}
    model = both.model(both.start())
    small = lift_losses(model, inputs, batch.collocation, 4)[0]
    # Its own loss divides each function, but for a thousandth of the mean that keeps zero functions harmless.
    large = lift_losses(model, batch.inputs, batch.collocation, 4)[0]
    np.testing.assert_allclose(batch.scale * (large + 1e-3 * jnp.mean(large)), 1.0, rtol=1e-10)
    assert np.all(small < 1e-5 * large)


def test_balanced_weights_give_gradients_of_equal_length():
    balanced = stepper(AllenCahn(), train__loss__balance=1, train__steps=2)
    state = balanced.start()
    batch = balanced.batch(state)
    factors = eqx.filter_jit(balanced._balanced)(state, batch)

    @eqx.filter_jit
    def length(factors):
        gradient = jax.grad(lambda w: balanced.loss(w, factors, batch, state.step)[0])(state.parameters)
        return jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient)))

    lengths = [float(length(row)) for row in jnp.diag(factors)]
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-8)


def test_supervised_pairs_pull_the_model_to_them():
    problem = KdV()
    # Data that contradict the equation must win where the equation hardly counts.
    weights = {"equation": 1e-6, "t": 1e-6, "x": 1e-6}
    made = recipe(train__steps=300, train__loss__normalise=False, train__loss__weights=weights)
    inputs = problem.sample(jax.random.key(3), 3)
    grid = Grid.of(problem.domain, {"t": jnp.linspace(0, 0.5, 5), "x": jnp.linspace(-1, 1, 9)})
    values = jnp.broadcast_to(jnp.cos(jnp.pi * grid["x"])[None, None], (3, 5, 9))
    result = train_model(problem, made, data=Data(inputs, grid, {"s": values}), quiet=True)
    error = predict_fields(result.model, inputs, grid)[0] - values
    assert float(jnp.sqrt(jnp.mean(error**2) / jnp.mean(values**2))) < 0.5


def test_a_step_that_is_not_finite_is_not_applied(plain):
    state = plain.start()
    broken = eqx.tree_at(lambda s: s.balance, state, jnp.full_like(state.balance, jnp.nan))
    after, record = plain.run(broken, jnp.asarray(1))
    assert not bool(record.finite)
    assert same(after.parameters, state.parameters)


def test_a_run_that_diverges_ends_with_a_sentence():
    wild = recipe(train__optimizer={"name": "adam", "rate": 1e12, "schedule": "constant"}, train__rollbacks=2)
    with pytest.raises(Diverged, match=r"although the step was halved 2 times; lower train\.optimizer\.rate"):
        train_model(AllenCahn(), wild, quiet=True)


def interrupt_at(call):
    """A validation that is interrupted when it is called for this time."""
    calls = []

    def validate(_):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return 1.0

    return validate


@pytest.mark.thorough
@pytest.mark.parametrize(
    "changes",
    [{}, {"train__loss__balance": 2, "train__sampling__method": "adaptive", "model__exact": "none"}],
    ids=["plain", "balance, adaptive points"],
)
def test_resumed_equals_uninterrupted(tmp_path, changes):
    made = recipe(train__validate=0.0, **changes)
    whole = train_model(AllenCahn(), made, folder=tmp_path, quiet=True)
    (tmp_path / "two").mkdir()
    part = train_model(AllenCahn(), made, folder=tmp_path / "two", validate=interrupt_at(2), quiet=True)
    assert part.end == "interrupt"
    assert 0 < part.steps < 12
    rest = train_model(AllenCahn(), made, folder=tmp_path / "two", resume=True, quiet=True)
    assert rest.history[0]["step"] > part.steps
    assert rest.steps == 12
    assert same(whole.model, rest.model)
    steps = [json.loads(line)["step"] for line in (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import jax
jax.config.update("jax_enable_x64", True)
from test_training import recipe
from zoo import AllenCahn
from seponet.training.loop import train_model
made = recipe(train__steps=1_000_000, train__checkpoint=0.0)
train_model(AllenCahn(), made, folder=Path({folder!r}), resume=True, quiet=True)
"""


@pytest.mark.thorough
def test_killed_at_any_moment_a_run_goes_on_from_a_whole_checkpoint(tmp_path):
    tests = str(Path(__file__).parent)
    code = KILLED.format(tests=tests, folder=str(tmp_path))
    environment = {**os.environ, "PYTHONPATH": str(Path(tests).parent)}
    seen = []
    # With a checkpoint after every block the process spends most of its time in writing one.
    for wait in (0.3, 0.0):
        process = subprocess.Popen([sys.executable, "-c", code], env=environment)
        newest = max(seen, default=0)
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and process.poll() is None:
            if max(Checkpoints(tmp_path / "checkpoints").steps(), default=0) > newest:
                break
            time.sleep(0.02)
        ended = process.poll()
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert ended is None
        seen.append(max(Checkpoints(tmp_path / "checkpoints").steps()))
    made = recipe(train__steps=1_000_000, train__checkpoint=0.0)
    reference = stepper_like_train(AllenCahn(), made)
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    state = reference.start()
    step = checkpoints.steps()[-1]
    expected, _ = reference.run(state, jnp.asarray(step))
    found = checkpoints.restore(state)
    assert found is not None
    got_step, got, _ = found
    assert got_step == step
    assert same(got, expected)


def stepper_like_train(problem, made):
    for_model, _, for_steps = jax.random.split(jax.random.key(0), 3)
    return TrainStep(nn.build(problem, made.model, key=for_model), made.train, made.train.slab, for_steps)


@pytest.mark.parametrize("damage", ["cut", "emptied", "one byte"])
def test_a_damaged_checkpoint_is_passed_over_and_said(tmp_path, caplog, damage):
    state = {"w": jnp.arange(4.0)}
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (1, 2):
        checkpoints.save(step, {"w": state["w"] * step}, 1.0, 0.0)
    whole = checkpoints.path(2).read_bytes()
    at = whole.index(np.arange(0.0, 8.0, 2.0).tobytes()) + 20
    damaged = {"cut": whole[: len(whole) // 2], "emptied": b"", "one byte": whole[:at] + b"x" + whole[at + 1 :]}
    checkpoints.path(2).write_bytes(damaged[damage])
    again = Checkpoints(tmp_path, keep=3)
    found = again.restore(state)
    assert found is not None
    assert found[0] == 1
    np.testing.assert_array_equal(found[1]["w"], np.arange(4.0))
    assert "checkpoint 2 can't be read" in caplog.text
    # The run comes to step 2 again, and mends it.
    again.save(2, {"w": state["w"] * 2}, 1.0, 0.0)
    mended = Checkpoints(tmp_path).restore(state)
    assert mended is not None
    assert mended[0] == 2


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"w": np.ones(3)}, r"float64\[2\] instead of float64\[3\]"),
        ({"w": np.ones(2, np.float32)}, r"float64\[2\] instead of float32\[2\]"),
        ({"w": np.ones(2), "x": np.ones(2)}, "1 arrays instead of 2"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(tmp_path, other, difference):
    Checkpoints(tmp_path).save(1, {"w": jnp.ones(2)}, 1.0, 0.0)
    with pytest.raises(ValueError, match=f"is of another model or precision: it has {difference}. Resume with the"):
        Checkpoints(tmp_path).restore(jax.tree.map(jnp.asarray, other))


def test_the_best_checkpoint_outlives_newer_ones(tmp_path):
    for step, error in ((1, 0.5), (2, 0.1), (3, 0.4), (4, 0.3)):
        # Also when the run was resumed in between.
        Checkpoints(tmp_path, keep=1).save(step, {"w": jnp.ones(2)}, error, 0.0)
    assert Checkpoints(tmp_path).steps() == [2, 4]


def test_what_a_killed_run_left_half_written_is_removed(tmp_path):
    (tmp_path / ".7-abc.npz").write_bytes(b"half")
    Checkpoints(tmp_path).save(8, {"w": jnp.ones(2)}, 1.0, 0.0)
    assert os.listdir(tmp_path) == ["8.npz"]


def test_a_disk_that_fills_up_while_a_checkpoint_is_written_leaves_those_before_it(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"w": jnp.ones(2)}, 1.0, 0.0)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"checkpoint 2 can't be written to .* \(.*No space left.*those before it"):
        checkpoints.save(2, {"w": jnp.ones(2)}, 1.0, 0.0)
    assert os.listdir(tmp_path) == ["1.npz"]


def test_lbfgs_lowers_the_loss_of_a_problem_without_inputs():
    made = recipe(train__steps=20, train__sampling__method="gauss", train__polish=30)
    finished = train_model(Plate(), made, quiet=True)
    assert finished.steps == 20
    other = TrainStep(finished.model, made.train, 4, jax.random.key(2))

    @eqx.filter_jit
    def loss(model):
        state = other.start()
        parameters = eqx.filter(model, eqx.is_inexact_array)
        return other.loss(parameters, state.balance, other.batch(state), state.step)[0]

    before = stepper_like_train(Plate(), made)
    state, _ = before.run(before.start(), jnp.asarray(20))
    assert float(loss(finished.model)) < 0.5 * float(loss(before.model(state)))


def test_ctrl_c_ends_cleanly_with_a_checkpoint(tmp_path):
    made = recipe(train__steps=10_000, train__validate=0.0)
    result = train_model(AllenCahn(), made, folder=tmp_path, validate=interrupt_at(1), quiet=True)
    assert result.interrupted
    assert 0 < result.steps < 10_000
    assert (tmp_path / "checkpoints" / f"{result.steps}.npz").exists()


def test_float64_on_request_and_float32_by_default():
    with jax.enable_x64(False):
        single = train_model(AllenCahn(), recipe(train__steps=1), quiet=True)
        double = train_model(AllenCahn(), recipe(train__steps=1, train__precision="float64"), quiet=True)
    assert {leaf.dtype for leaf in arrays(single.model)} == {np.dtype("float32")}
    assert {leaf.dtype for leaf in arrays(double.model)} == {np.dtype("float64")}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"train.stepz": 3}, "unknown setting 'stepz' (did you mean 'steps'"),
        ({"train.steps": "many"}, "steps must be int or \"auto\"; got 'many'"),
        ({"train.steps": 0}, "at least 1; got 0"),
        ({"trian.steps": 1}, "written model.<key> or train.<key>"),
        ({"train.precision": "half"}, "float32, float64"),
        ({"model.sensors": 1.5}, "sensors must be int"),
        ({"train.steps": True}, 'the settings, [train]: steps must be int or "auto"; got True'),
        ({"train.optimzer": {}}, "unknown setting 'optimzer' (did you mean 'optimizer'"),
        (
            {"train.optimizer.rte": 1.0},
            "the settings, [train.optimizer] has an unknown setting 'rte' (did you mean 'rate'",
        ),
        ({"train.optimizer_option": 3}, "did you mean 'optimizer.options'"),
        ({"train.optimizer.options": 3}, "[train.optimizer]: options must be a table; got 3"),
        ({"train.sampling.points": "many"}, '[train.sampling]: points must be int or "auto" or a table of int; got'),
        ({"train.points": {"t": 1.5}}, '[train.sampling]: points must be int or "auto" or a table of int; got'),
        ({"train.rollout": 3}, "[train]: rollout must be a table of settings; got 3"),
        ({"train.loss.weights": {"t": "much"}}, "[train.loss]: weights must be a table of float; got {'t': 'much'}"),
        ({"model.exact": [1]}, "exact must be str or a list of str; got [1]"),
        ({"train.causality": 1.0}, "sets 'causality', which no recipe used and which is gone; leave it out"),
    ],
)
def test_wrong_settings_are_rejected_with_what_was_meant(changes, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        Recipe().changed(changes)


def test_a_recipe_survives_its_own_description():
    made = recipe(train__sampling__points={"t": 3, "x": 5}, model__exact=["t"], train__loss__weights={"t": 20.0})
    assert Recipe.from_dict(made.to_dict()) == made


def test_flat_keys_stand_for_those_in_tables():
    flat = {
        "steps": 7,
        "points": {"t": 3, "x": 5},
        "sampling": {"t": "gauss", "x": "uniform"},
        "optimizer": "adam",
        "optimizer_options": {"b1": 0.8},
        "rate": 1,
        "schedule_options": {"warmup": 3},
        "weights": {"t": 20},
        "windows": 1,
        "finish": 4,
        "average": 0.0,
        "causality": 0.0,
    }
    tables = {
        "steps": 7,
        "polish": 4,
        "sampling": {"points": {"t": 3, "x": 5}, "method": {"t": "gauss", "x": "uniform"}},
        "optimizer": {"name": "adam", "options": {"b1": 0.8}, "rate": 1.0, "schedule_options": {"warmup": 3}},
        "loss": {"weights": {"t": 20.0}},
        "rollout": {"windows": 1},
    }
    assert Recipe.from_dict({"train": flat}) == Recipe.from_dict({"train": tables})
    settings = {f"train.{key}": value for key, value in flat.items()}
    assert Recipe().changed(settings) == Recipe.from_dict({"train": tables})
    one = Recipe().changed({"train.optimizer_options.b1": 0.8, "train.optimizer.rate": 2.0, "train.rate": 1.0})
    assert (one.train.optimizer.options, one.train.optimizer.rate) == ({"b1": 0.8}, 1.0)
    with pytest.raises(ValueError, match=r"sets optimizer\.rate twice, once as a flat key"):
        Recipe.from_dict({"train": {"rate": 1.0, "optimizer": {"rate": 1.0}}})


FLAT = json.loads((Path(__file__).parent / "data" / "flat_recipes.json").read_text())


# These have moved on: they are trained on what the discretisation solves.
MOVED = {"quick.toml", "advection/best.toml", "advection_informed/best.toml", "heat/best.toml"}

# These have the settings of then but for some.
CHANGED = {
    "burgers/best.toml": {"model.branch_width": 220, "train.steps": 17_000},
    "burgers/best_plain.toml": {"model.branch_width": 220, "train.steps": 17_000},
    "diffusion_reaction/best.toml": {
        "model.branch_width": 150,
        "model.components": 15,
        "model.ridge": 1e-4,
        "train.steps": 20_000,
    },
    "navier_stokes/best.toml": {"train.steps": 13_500},
}


@pytest.mark.parametrize("name", sorted(set(FLAT)))
def test_recipes_in_flat_form_are_those_that_are_shipped(name):
    """The recipes as they were before [train] had tables."""
    flat = Recipe.from_dict(FLAT[name]).changed(CHANGED.get(name, {}))
    assert (flat == load_recipe(PACKAGED / name)) == (name not in MOVED)


def test_a_long_gradient_is_clipped():
    options = {"train__optimizer__name": "adam", "train__optimizer__schedule": "constant"}
    free = stepper(AllenCahn(), **options)
    clipped = stepper(AllenCahn(), **options, train__optimizer__clip=1e-3)
    gradient = jax.tree.map(lambda w: jnp.ones_like(w), free.trained)
    length = float(jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient))))
    short = jax.tree.map(lambda g: g * 1e-3 / length, gradient)
    # Adam's first step does not depend on the length; its memory of the gradient does.
    _, after = (optimizer := clipped.optimizer(10)).update(gradient, optimizer.init(free.trained), free.trained)
    _, expected = (optimizer := free.optimizer(10)).update(short, optimizer.init(free.trained), free.trained)
    for a, b in zip(arrays(after), arrays(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_supervised_pairs_count_by_their_weight():
    problem = KdV()
    inputs = problem.sample(jax.random.key(3), 3)
    grid = Grid.of(problem.domain, {"t": jnp.linspace(0, 0.5, 5), "x": jnp.linspace(-1, 1, 9)})
    pairs = Data(inputs, grid, {"s": jnp.ones((3, 5, 9))})

    def loss(weight, data):
        settings = recipe(train__loss__data_weight=weight)
        model = nn.build(problem, settings.model, key=jax.random.key(1))
        step = TrainStep(model, settings.train, settings.train.slab, jax.random.key(2), data)
        state = step.start()
        return float(step.loss(state.parameters, state.balance, step.batch(state), state.step)[0])

    none, once, twice = loss(1.0, None), loss(1.0, pairs), loss(2.0, pairs)
    assert once > none
    np.testing.assert_allclose(twice - none, 2 * (once - none), rtol=1e-9)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"train__whitening": "diagonal"}, "the trunks of this model are learned"),
        ({"train__sampling__points": {"t": 4, "x": 4, "y": 4}}, "points names y; the axes are t, x"),
    ],
)
def test_settings_that_do_not_go_together_are_rejected(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        prepare(AllenCahn(), recipe(**changes))


def test_a_loss_of_zero_is_no_divergence(monkeypatch):
    made = stepper(AllenCahn(), train__steps=3)
    run = made.run

    def solved(state, steps):
        return run(state, steps)[0], Record(jnp.zeros(()), jnp.zeros(len(made.terms)), jnp.asarray(True))

    monkeypatch.setattr(made, "run", solved)
    assert Trainer(made, quiet=True).train().steps == 3


def test_weights_of_unknown_terms_are_rejected():
    with pytest.raises(ValueError, match="names 'z'; the terms and axes"):
        stepper(AllenCahn(), train__loss__weights={"z": 1.0})


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_until_a_checkpoint_is_written(tmp_path, monkeypatch, which):
    def interrupt(*_):
        raise KeyboardInterrupt

    checkpoints = Checkpoints(tmp_path)
    write = np.savez

    def interrupted(*files, **arrays):
        signal.raise_signal(which)
        return write(*files, **arrays)

    monkeypatch.setattr(np, "savez", interrupted)
    before = signal.signal(which, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            checkpoints.save(3, {"w": jnp.arange(4.0)}, 1.0, 0.0)
    finally:
        signal.signal(which, before)
    found = Checkpoints(tmp_path).restore({"w": jnp.zeros(4)})
    assert found is not None
    np.testing.assert_array_equal(found[1]["w"], np.arange(4.0))
