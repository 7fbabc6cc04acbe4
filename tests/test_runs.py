"""Specifications, run folders and training from end to end, in this process."""

import errno
import json
import logging
import math
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import seponet
from seponet import Domain, Problem, Value, functions
from seponet import _machine as machine
from seponet._files import to_toml, write_text
from seponet._text import parse_duration
from seponet.nn.build import build
from seponet.operator.facts import facts_of
from seponet.operator.operator import load
from seponet.problems import PROBLEMS, Burgers, NavierStokes
from seponet.problems.published import paper_figure
from seponet.runs import finish, start
from seponet.runs import train as run
from seponet.runs.config import RunConfig
from seponet.runs.folder import RunFolder
from seponet.runs.problems import make_problem
from seponet.runs.recipes import load_recipe, recipes_of
from seponet.runs.train import train
from seponet.runs.verdict import NotTrained
from seponet.training.cost import choose_slab
from seponet.training.recipe import Recipe
from seponet.training.step import TrainStep

TINY = {
    "model": {"rank": 3, "exact": "all", "trunk_width": 6, "trunk_depth": 1, "sensors": 12, "branch_width": 6},
    "train": {
        "steps": 12,
        "functions": 2,
        "checkpoint": 0.0,
        "sampling": {"points": 5, "method": "stratified"},
        "optimizer": {"name": "adam"},
        "loss": {"normalise": False},
    },
}
RECIPE = Recipe.from_dict(TINY)
BARE = {"functions": 0, "figures": False, "quiet": True}


class Decay(Problem):
    r"""$s_t = -k s$, $s(0, x) = u(x)$: no reference."""

    k: float = 1.0
    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {"u": functions.GaussianField(domain["x"], length_scale=0.3)}
    conditions = [Value({"t": 0}, equals="u")]

    def equation(self, s, s_t):
        return s_t + self.k * s


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "decay"
    return out, train(Decay, RECIPE, out=out, seed=3, functions=2, quiet=True)


@pytest.fixture(scope="module")
def finished(trained):
    """A run folder of `Decay`, trained to its end."""
    return trained[0]


def test_an_operator_that_was_just_trained_knows_what_a_loaded_one_knows(trained):
    out, operator = trained
    assert facts_of(operator) == facts_of(load(out, problem=Decay))
    assert facts_of(operator)["test_error"]["functions"] == 2


def test_toml_is_read_back_as_it_was():
    tables = {
        "name": 'a "quoted" \\ path\twith é and 🙂 and \x7f',
        "numbers": {"small": 1e-7, "large": 1e22, "negative": -0.5, "count": 10**12, "infinite": math.inf},
        "mixed": {
            "flag": True,
            "list": [1, 2, 3],
            "names": ("x", "y"),
            "inner": {"t": 1.0, "odd key": "v"},
            "none": {},
        },
    }
    expected = {**tables, "mixed": {**tables["mixed"], "names": ["x", "y"]}}
    assert tomllib.loads(to_toml(tables)) == expected
    with pytest.raises(ValueError, match="TOML can't hold"):
        to_toml({"a": {"b": None}})


@pytest.mark.parametrize("name", PROBLEMS)
def test_packaged_recipes_are_valid_for_their_problem(name):
    assert ({"quick"} if name == "advection_informed" else {"quick", "paper"}) <= set(recipes_of(name))
    problem = PROBLEMS[name]()
    for label in recipes_of(name):
        recipe = load_recipe(label, name)
        specification = RunConfig(problem, recipe, 5, label)
        tables = tomllib.loads(specification.to_toml())
        assert Recipe.from_dict({key: tables[key] for key in ("model", "train")}) == recipe
        if label == "paper" or (name == "burgers" and recipe.model.exact != "auto"):
            model = build(problem, recipe.model, key=jax.random.key(0))
            stepper = TrainStep(model, recipe.train, choose_slab(model, recipe.train.functions), jax.random.key(0))
            assert stepper.term_weights.shape == (len(problem.terms(model.exact)),)


def test_paper_recipe_weighs_terms_like_the_paper():
    recipe = load_recipe("paper", "burgers")
    model = build(Burgers(), recipe.model, key=jax.random.key(0))
    stepper = TrainStep(model, recipe.train, 8, jax.random.key(0))
    weights = dict(zip([term.name for term in stepper.terms], stepper.term_weights.tolist(), strict=True))
    assert weights["equation"] == 1
    assert weights["t=0"] == 20
    assert {weight for name, weight in weights.items() if name.startswith("x periodic")} == {1.0}
    size = sum(leaf.size for leaf in jax.tree.leaves(stepper.trained))
    # Branch 101-7x100-100 and two trunks 1-7x100-100, with biases.
    assert size == (101 + 1) * 100 + 7 * 101 * 100 + 2 * (2 * 100 + 7 * 101 * 100)


def test_specification_survives_its_file(tmp_path):
    made = RunConfig.make("burgers", "quick", 7, {"train.steps": 30, "constants.nu": 0.02, "model.rank.t": 5})
    assert made.problem == Burgers(nu=0.02)
    path = tmp_path / "config.toml"
    path.write_text(made.to_toml())
    again = RunConfig.read(path)
    assert again == made
    assert RunConfig.read(path, seed=8, changes={"train.steps": 40}).differences(path.read_text(), str(path)) == [
        "seed = 7 instead of 8",
        "train.steps = 30 instead of 40",
    ]


def test_problem_from_a_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from seponet import Domain, Problem, Value\n\n"
        "class Growth(Problem):\n    rate: float = 1.0\n    domain = Domain(t=(0, 1))\n"
        "    conditions = [Value({'t': 0}, equals=1.0)]\n\n"
        "    def equation(self, s, s_t):\n        return s_t - self.rate * s\n"
    )
    made = make_problem(f"{path}:Growth", {"rate": 2})
    assert made.rate == 2.0  # pyright: ignore[reportAttributeAccessIssue]
    assert make_problem(str(path)) == make_problem(f"{path}:Growth")
    specification = RunConfig.make(made)
    assert specification.to_dict()["problem"] == f"{path}:Growth"
    assert specification.name == "Growth"
    for wrong, message in (
        (f"{path}:Grwth", "no problem 'Grwth'; its problems are Growth"),
        (f"{path}:Domain", "no problem 'Domain'"),
        (f"{tmp_path / 'none.py'}:Growth", "there is no file"),
    ):
        with pytest.raises(ValueError, match=message):
            make_problem(wrong)


@pytest.mark.parametrize(
    ("problem", "recipe", "changes", "message"),
    [
        ("burger", "quick", {}, "did you mean 'burgers'"),
        ("burgers", "quik", {}, "did you mean 'quick'"),
        ("burgers", "quick", {"train.step": 3}, "unknown setting 'step' .did you mean 'steps'"),
        ("burgers", "quick", {"train.steps": "many"}, "must be int or \"auto\"; got 'many'"),
        ("burgers", "quick", {"constants.mu": 3}, "no constant 'mu' .did you mean 'nu'"),
        ("burgers", "quick", {"constants.nu": "thick"}, "constants.nu must be a number"),
        ("burgers", "quick", {"steps": 3}, "model.<key> or train.<key>"),
    ],
)
def test_mistakes_are_named_with_the_nearest_right_word(problem, recipe, changes, message):
    with pytest.raises(ValueError, match=message):
        RunConfig.make(problem, recipe, 0, changes)


def test_mistakes_that_only_building_finds_leave_no_folder(tmp_path):
    for changes, message in (
        ({"model.decoder": "tuker"}, "did you mean 'tucker'"),
        ({"train.optimizer": "sop"}, "did you mean 'soap'"),
        ({"train.weights": {"z": 1.0}}, "train.loss.weights names 'z'"),
    ):
        with pytest.raises(ValueError, match=message):
            train(Decay, RECIPE, out=tmp_path / "run", set=changes, quiet=True)
    assert not (tmp_path / "run").exists()


def test_plan_that_does_not_fit_stops_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(start, "available_memory", lambda: 1000)
    with pytest.raises(
        ValueError, match=r"GiB are free: lower train.functions \(now 2\), train.sampling.points \(now 5\)"
    ):
        train(Decay, RECIPE, out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_run_folder_describes_itself(finished):
    files = {"config.toml", "metrics.jsonl", "checkpoints", "operator", "report.json", "figures"}
    assert files == set(os.listdir(finished))
    assert "history.png" in os.listdir(finished / "figures")
    report = json.loads((finished / "report.json").read_text())
    assert report["steps"] == 12
    assert report["seed"] == 3
    assert report["constants"] == {"k": 1.0}
    assert report["problem"] == f"{Path(__file__).resolve()}:Decay"
    assert report["training_seconds"] > 0
    assert report["peak_memory_bytes"] > 10**8
    assert report["functions"] == 2
    assert report["residuals"]["equation"]["max"] >= report["residuals"]["equation"]["mean"] > 0
    assert report["versions"]["jax"] == jax.__version__
    assert report["machine"]["cores"] >= 1
    assert RunConfig.read(finished / "config.toml") == RunConfig(Decay(), RECIPE, 3, "custom")


def test_loaded_operator_is_the_trained_one(trained):
    out, operator = trained
    u = np.sin(3 * np.linspace(0, 1, 12))
    grid: dict[str, Any] = {"t": np.linspace(0, 1, 4), "x": np.linspace(0, 1, 5)}
    np.testing.assert_allclose(
        load(out).predict(u, **grid).to_numpy(), operator.predict(u, **grid).to_numpy(), rtol=1e-12
    )


def test_a_trained_operator_is_evaluated_and_drawn_from_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "load", None)
    monkeypatch.setattr("seponet.operator.operator.Operator.load", None)
    train(Decay, RECIPE, out=tmp_path / "run", functions=2, set={"train.steps": 2}, quiet=True)
    assert (tmp_path / "run" / "figures" / "history.png").exists()


def test_pictures_that_fail_are_said_and_the_run_is_complete(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(finish, "plot_run", None)
    train(Decay, RECIPE, out=tmp_path / "run", functions=0, set={"train.steps": 2}, quiet=True)
    assert "the run is complete, but its pictures failed: TypeError" in caplog.text
    assert load(tmp_path / "run").problem == Decay()


class Solved(Decay):
    """With a reference that needs a package which is not there."""

    def reference(self, inputs, points, resolution=None):
        raise ImportError("solve_decay needs a package, which is not installed: pip install it")


def test_without_the_package_of_a_reference_a_run_is_complete_and_says_so(tmp_path, caplog):
    train(Solved, RECIPE, out=tmp_path / "run", functions=2, set={"train.steps": 2}, quiet=True)
    assert caplog.text.count("errors are not measured: solve_decay needs a package") == 3  # while, after, pictures
    report = RunFolder(tmp_path / "run").read_report()
    assert report["residuals"]["equation"]["mean"] > 0
    assert "relative_l2_mean" not in report
    assert (tmp_path / "run" / "figures" / "history.png").exists()


def local_class():
    class Local(Decay):
        pass

    return Local


def typed_class():
    """A class as a console or a notebook has it: without a file."""
    namespace: dict[str, Any] = {"__name__": "console", "Decay": Decay}
    exec("class Typed(Decay):\n    pass", namespace)
    return namespace["Typed"]


class Shaped(Decay):
    shape: Any = None


UNSAVEABLE = {
    "local": (local_class, "local_class.<locals>.Local is defined inside a function.*; move it to a module"),
    "typed": (typed_class, r"Typed has no source file.*write it in a .py file \(in a notebook, .*%%writefile"),
    "constant": (lambda: Shaped(shape=abs), "Shaped.shape is a builtin_function_or_method, which can't be saved"),
}


@pytest.mark.parametrize("kind", UNSAVEABLE)
def test_what_could_not_be_saved_is_told_before_it_is_trained(kind, tmp_path, monkeypatch, caplog):
    make, sentence = UNSAVEABLE[kind]

    def begin(*_: Any) -> None:
        raise InterruptedError("training begins")

    monkeypatch.setattr(start, "prepare", begin)
    with pytest.raises(ValueError, match=f"^the run can't be saved in .*run: {sentence}.*; or train without out$"):
        train(make(), RECIPE, out=tmp_path / "run", **BARE)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InterruptedError):
        train(make(), RECIPE, **BARE)
    assert re.search(f"this operator can be used, but not saved: {sentence}", caplog.text)
    caplog.clear()
    with pytest.raises(InterruptedError):
        train(Decay, RECIPE, out=tmp_path / "run", **BARE)
    assert "saved" not in caplog.text


def test_checkpoints_of_an_earlier_version_are_refused_and_kept(tmp_path):
    out = tmp_path / "run"
    RunFolder(out).create(RunConfig(Decay(), RECIPE, 0, "custom").to_toml())
    (out / "checkpoints" / "7").mkdir(parents=True)
    with pytest.raises(ValueError, match="in Orbax's format, which this one doesn't read; finish the run with that"):
        train(Decay, RECIPE, out=out, resume=True, **BARE)
    assert (out / "checkpoints" / "7").exists()


def test_messages_go_to_whoever_listens_and_to_the_screen_otherwise(capsys):
    logger = logging.getLogger("seponet")
    before = (logger.level, list(logger.handlers), logger.propagate)
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    few = {"train.steps": 2}
    logger.propagate = False  # pytest listens to the root
    try:
        train(Decay, RECIPE, set=few)
        shown = capsys.readouterr().err
        assert "contractions a step" in shown
        assert "step 2/2" in shown
        train(Decay, RECIPE, set=few, quiet=True)
        assert capsys.readouterr().err == ""
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        train(Decay, RECIPE, set=few)
        assert "contractions a step" not in capsys.readouterr().err
        assert "contractions a step" in messages[0]
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        assert (logger.level, logger.handlers) == before[:2]
    finally:
        logger.setLevel(before[0])
        logger.handlers, logger.propagate = before[1], before[2]


def test_existing_run_is_kept_unless_told(finished, tmp_path):
    with pytest.raises(ValueError, match="exists already; go on with it"):
        train(Decay, RECIPE, out=finished, quiet=True)
    with pytest.raises(ValueError, match="either resumed or overwritten"):
        train(Decay, RECIPE, out=finished, quiet=True, resume=True, overwrite=True)
    with pytest.raises(ValueError, match="resume needs the folder"):
        train(Decay, RECIPE, resume=True, quiet=True)
    with pytest.raises(ValueError, match=r"has seed = 3 instead of 4; train\.steps = 12 instead of 13"):
        train(Decay, RECIPE, out=finished, seed=4, set={"train.steps": 13}, quiet=True, resume=True)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").touch()
    with pytest.raises(ValueError, match="holds other things than a run"):
        train(Decay, RECIPE, out=precious, overwrite=True, quiet=True)
    with pytest.raises(ValueError, match="is a file"):
        train(Decay, RECIPE, out=precious / "thesis.tex", overwrite=True, quiet=True)
    assert RunFolder(finished).read_report()["steps"] == 12


def test_resuming_a_complete_run_trains_no_more(finished, monkeypatch):
    monkeypatch.setattr(start, "Trainer", None)
    operator = train(Decay, RECIPE, out=finished, seed=3, resume=True, functions=0, figures=False, quiet=True)
    assert operator.problem == Decay()


def test_budget_stops_and_resume_completes_then_overwrite_begins_anew(tmp_path):
    out = tmp_path / "run"
    steps = {"train.steps": 12}  # so that the budget only ends the run
    with pytest.raises(NotTrained, match="not a single step was taken") as raised:
        train(Decay, RECIPE, out=out, budget="0s", set=steps, **BARE)
    report = RunFolder(out).read_report()
    assert report["steps"] < 12
    assert report["interrupted"]
    (out / "notes.txt").write_text("mine")
    train(Decay, RECIPE, out=out, resume=True, **BARE)
    report = RunFolder(out).read_report()
    assert (report["steps"], report["interrupted"]) == (12, False)
    with pytest.raises(NotTrained):
        train(Decay, RECIPE, out=out, overwrite=True, budget="0s", set=steps, **BARE)
    assert RunFolder(out).read_report()["steps"] < 12
    assert (out / "notes.txt").read_text() == "mine"
    operator: Any = raised.value.operator
    assert operator.problem == load(out).problem


def test_run_without_checkpoint_begins_anew(tmp_path):
    out = tmp_path / "run"
    RunFolder(out).create(RunConfig(Decay(), RECIPE, 0, "custom").to_toml())
    with pytest.raises(
        ValueError, match=f"not been trained to its end; go on with it: seponet train --resume --out {out}"
    ):
        load(out)
    (out / "metrics.jsonl").write_text('{"step": 9, "loss": 1.0}\n{"st')
    assert RunFolder(out).last_metrics()["step"] == 9
    train(Decay, RECIPE, out=out, resume=True, **BARE)
    steps = [json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)


def test_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    write_text(path, "first")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "second")
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["report.json"]


def test_durations():
    assert [parse_duration(text) for text in ("90", "1.5s", "5min", "2 h", ".5m")] == [90, 1.5, 300, 7200, 30]
    for wrong in ("", "soon", "5 days", "-3s"):
        with pytest.raises(ValueError, match="a duration is a number with s, min or h"):
            parse_duration(wrong)


def test_paper_figures_belong_to_its_constants():
    figure = paper_figure(Burgers())
    assert figure is not None
    assert figure.relative_l2_mean == 0.0751
    assert paper_figure(Burgers(nu=0.1)) is None
    assert paper_figure(Decay()) is None
    long = paper_figure(NavierStokes(duration=1.0))
    assert long is not None
    assert long.relative_l2_mean == 0.4


def test_machine_facts_are_plausible():
    assert 1e8 < machine.matmul_rate() < 1e14
    available = machine.available_memory()
    assert available is None or 1e7 < available < 1e14
    commit = machine.git_commit()
    assert commit is None or len(commit) == 40


def test_package_shows_its_names():
    assert {"train", "load", "Operator", "functions"} <= set(dir(seponet))
    assert seponet.load is load
    assert seponet.train is train
    with pytest.raises(AttributeError, match="has no attribute 'tran'"):
        seponet.tran  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
