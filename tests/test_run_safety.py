"""A run can't be lost: one writer, exact resumption inside the polish, configurations that checkpoints know."""

import json
import logging
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import seponet
from seponet import Domain, Problem, Value, _lock
from seponet._lock import LOCK, Locked, locked
from seponet.cli import main
from seponet.operator.class_address import import_file, source_digest
from seponet.runs.config import RunConfig
from seponet.runs.folder import RunFolder
from seponet.runs.train import run
from seponet.training.checkpoints import Checkpoints
from seponet.training.lbfgs import Polish
from seponet.training.loop import train_model
from seponet.training.recipe import Recipe

SMALL: dict[str, Any] = {
    "model.rank": 3,
    "model.trunk_width": 4,
    "model.trunk_depth": 1,
    "train.steps": 6,
    "train.checkpoint": 0.0,
    "train.polish": 9,
    "train.sampling": {"points": 5, "method": "gauss"},
    "train.optimizer.name": "adam",
}


class Falling(Problem):
    """Small, so that it is compiled in no time."""

    domain = Domain(t=(0, 1))
    conditions = [Value({"t": 0}, equals=1.0)]

    def equation(self, s_t, s):
        return s_t + s


def arrays(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(arrays(one), arrays(other), strict=True))


class Killed(BaseException):
    """Like a kill: nothing is saved on the way out."""


@pytest.fixture(scope="module")
def whole() -> Any:
    return train_model(Falling(), Recipe().changed(SMALL), quiet=True).model


@pytest.mark.parametrize("end", [Killed, KeyboardInterrupt])
def test_a_run_that_ends_inside_the_polish_goes_on_exactly(whole, tmp_path, monkeypatch, end):
    recipe, calls, original = Recipe().changed(SMALL), [0], Polish.run

    def until_the_third(self: Polish, polish: Any, steps: int) -> Any:
        calls[0] += 1
        if calls[0] == 3:
            raise end
        return original(self, polish, min(steps, 2))

    monkeypatch.setattr(Polish, "run", until_the_third)
    if end is Killed:
        with pytest.raises(Killed):
            train_model(Falling(), recipe, folder=tmp_path, quiet=True)
    else:
        stopped = train_model(Falling(), recipe, folder=tmp_path, quiet=True)
        assert stopped.interrupted
        assert not same(stopped.model, whole)
    monkeypatch.undo()
    newest = max(Checkpoints(tmp_path / "checkpoints").steps())
    assert 6 < newest < 15
    resumed = train_model(Falling(), recipe, folder=tmp_path, resume=True, quiet=True)
    assert not resumed.interrupted
    assert same(resumed.model, whole)
    # Once more, from the last checkpoint, which is that of the whole polish.
    assert same(train_model(Falling(), recipe, folder=tmp_path, resume=True, quiet=True).model, whole)


MINE = """
    from seponet import Domain, Problem, Value

    FACTOR = 2.0

    def reaction(s):
        return FACTOR * s

    class Growth(Problem):
        domain = Domain(t=(0, 1))
        conditions = [Value({"t": 0}, equals=1.0)]

        def equation(self, s_t, s):
            return s_t - reaction(s)

    UNUSED = 1
"""


@pytest.fixture
def growth(tmp_path) -> tuple[Path, Path]:
    """A file with a problem, and its run, complete."""
    file, out = tmp_path / "growth.py", tmp_path / "run"
    file.write_text(textwrap.dedent(MINE))
    config = RunConfig.make(f"{file}:Growth", "quick", changes=SETTINGS)
    run(config, out=out, functions=0, figures=False, quiet=True)
    return file, out


SETTINGS: dict[str, Any] = {**SMALL, "model.rank": 4, "model.trunk": "mlp", "model.exact": "all", "model.decoder": "cp"}
SETTINGS |= {"train.whitening": "none", "train.loss.residual": "pointwise", "model.invariant": "", "train.polish": 0}
SETTINGS |= {"train.targets.pool": 0}
QUIET = ("--quiet", "--functions", "0", "--no-figures")


def forget(file: Path) -> None:
    for name in [name for name in sys.modules if name.endswith(str(file))]:
        del sys.modules[name]


def test_what_determines_a_run_is_known_to_its_checkpoints(growth, capsys, caplog):
    file, out = growth
    again = ["train", "--resume", "--out", str(out), *QUIET]
    config, report = (out / "config.toml").read_text(), json.loads((out / "report.json").read_text())
    assert main(again) == 0  # complete, so nothing is trained
    capsys.readouterr()
    # The equation changes, although the class does not: what it uses counts, what it doesn't use does not.
    text = file.read_text()
    forget(file)
    file.write_text(text.replace("UNUSED = 1", "UNUSED = 2  # a comment"))
    assert main([*again, "--trust"]) == 0
    forget(file)
    file.write_text(text.replace("FACTOR = 2.0", "FACTOR = 3.0"))
    capsys.readouterr()
    assert main([*again, "--trust"]) == 1
    assert "another source of Growth than" in capsys.readouterr().err
    forget(file)
    file.write_text(text)
    # A damaged configuration is neither believed nor the end of a run.
    shutil.rmtree(out / "operator")
    for damaged in (config.replace("steps = 6", "steps = 7"), "steps = {"):
        (out / "config.toml").write_text(damaged)
        with caplog.at_level(logging.WARNING):
            assert main(again) == 0, capsys.readouterr().err
        assert "is not what the checkpoints were made with" in caplog.text
        caplog.clear()
        assert (out / "config.toml").read_text() == config
        assert json.loads((out / "report.json").read_text())["steps"] == report["steps"]
        shutil.rmtree(out / "operator")
    # Other settings are refused, and told.
    assert main([*again, "--set", "train.steps=8"]) == 1
    assert "train.steps = 6 instead of 8" in capsys.readouterr().err


def test_the_digest_of_a_source_is_that_of_what_counts(tmp_path):
    def digest(text: str) -> str | None:
        file = tmp_path / "mine.py"
        file.write_text(textwrap.dedent(text))
        forget(file)
        return source_digest(import_file(file).Growth)

    first = digest(MINE)
    assert first == digest(MINE.replace("UNUSED = 1", "UNUSED = 5"))
    assert first == digest(MINE.replace("class Growth", "# why\n\n    class Growth"))
    assert first != digest(MINE.replace("return FACTOR", "return -FACTOR"))
    assert first != digest(MINE.replace("FACTOR = 2.0", "FACTOR = 2.5"))
    assert first != digest(MINE.replace("s_t - reaction", "s_t + reaction"))
    assert source_digest(seponet.problems.Heat) is None


def test_the_digest_of_a_checkpoint_is_of_all_that_it_holds(tmp_path, caplog):
    checkpoints = Checkpoints(tmp_path, config="steps = 1")
    for step in (1, 2):
        checkpoints.save(step, {"w": np.full(3, float(step))}, 0.5, 1.0)
    assert checkpoints.configuration() == "steps = 1"
    with np.load(tmp_path / "2.npz") as content:
        entries = dict(content)
    meta = json.loads(entries["meta"].tobytes())
    for changed in ({"seconds": 9.0}, {"config": "steps = 3"}, {"error": 0.1}, {"step": 1}, {"format": 1}):
        entries["meta"] = np.frombuffer(json.dumps(meta | changed).encode(), np.uint8)
        np.savez(tmp_path / "2.npz", **entries)
        found = Checkpoints(tmp_path).restore({"w": jax.numpy.zeros(3)})
        assert found is not None
        assert found[0] == 1
        assert "passed over" in caplog.text
    # Those of the version before digested their arrays alone, and had no number.
    old = {"step": 2, "error": 0.5, "seconds": 1.0, "digest": meta["digest"]}
    entries["meta"] = np.frombuffer(json.dumps(old).encode(), np.uint8)
    np.savez(tmp_path / "2.npz", **entries)
    assert Checkpoints(tmp_path).configuration() == "steps = 1"


HOLD = """
import sys, time
from pathlib import Path
from seponet._lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def held(tmp_path):
    """A folder that another process has locked, and that process."""
    folder = tmp_path / "run"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield folder, process
        process.kill()


def test_a_run_that_is_being_written_is_refused_and_that_of_a_dead_process_is_taken_over(held, capsys):
    folder, process = held
    for more in ((), ("--overwrite",)):
        (folder / "config.toml").write_text(RunConfig.make("heat").to_toml() if more else "")
        if not more:
            (folder / "config.toml").unlink()
        assert main(["train", "heat", "--out", str(folder), *more, *QUIET]) == 1
        said = capsys.readouterr().err
        assert f"is being written by process {process.pid} on {_lock.socket.gethostname()}" in said
    assert main(["train", "--resume", "--out", str(folder), *QUIET]) == 1
    assert "is being written by process" in capsys.readouterr().err
    process.kill()
    process.wait()
    with locked(folder):
        assert json.loads((folder / LOCK).read_text())["process"] == os.getpid()
    assert not (folder / LOCK).exists()


def test_locks_of_other_machines_and_without_the_systems_help(tmp_path, monkeypatch):
    lock = tmp_path / LOCK
    elsewhere = {"process": 1, "host": "elsewhere", "started": 0.0}
    lock.write_text(json.dumps(elsewhere))
    with pytest.raises(Locked, match="process 1 on elsewhere"), locked(tmp_path):
        pass
    # One that has not been renewed for long.
    os.utime(lock, (time.time() - 1000, time.time() - 1000))
    with locked(tmp_path):
        pass
    monkeypatch.setattr(_lock, "_try_lock", lambda handle: None)
    lock.write_text(json.dumps(_lock._me()))
    with pytest.raises(Locked), locked(tmp_path):
        pass
    # A later process of the same number, and a file that was cut off.
    for text in (json.dumps(_lock._me() | {"started": 1.0}), '{"proc'):
        lock.write_text(text)
        with locked(tmp_path):
            pass


def test_a_folder_that_was_made_for_the_lock_alone_goes_with_it(tmp_path):
    with pytest.raises(ValueError, match="steps must be"):
        seponet.train("heat", out=tmp_path / "a" / "b", set={"train.steps": 0}, quiet=True)
    with locked(tmp_path / "a" / "b"):
        pass
    assert not (tmp_path / "a").exists()


def test_our_own_temporary_files_are_in_nobodys_way(tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / ".config-x1_y2.toml").write_text("half")
    (out / ".operator-abc").mkdir()
    (out / "checkpoints").mkdir()
    RunFolder(out)  # a folder with checkpoints is no longer empty
    with pytest.raises(ValueError, match="other things than a run"):
        RunFolder(out).check_free()
    (out / "checkpoints").rmdir()
    RunFolder(out).check_free()
    RunFolder(out).remove_leftovers()
    assert list(out.iterdir()) == []
    (out / ".bashrc").write_text("")
    with pytest.raises(ValueError, match="other things than a run"):
        RunFolder(out).check_free()
