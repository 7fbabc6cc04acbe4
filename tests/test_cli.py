"""The command: what it writes, how it fails. Whole runs are driven in processes of their own, failures in this one."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zoo

from seponet.cli import main
from seponet.cli.evaluate import show_report
from seponet.operator.operator import Operator
from seponet.problems import Burgers
from seponet.training.checkpoints import Checkpoints

ROOT = Path(__file__).parents[1]
RECIPE = """
[model]
rank = 4
exact = "all"
trunk_width = 8
trunk_depth = 1
sensors = 16
branch_width = 8
branch_depth = 1

[train]
steps = 30
functions = 4
checkpoint = 0.0

[train.sampling]
points = 6
method = "stratified"

[train.optimizer]
name = "adam"

[train.loss]
normalise = false
"""
COMMANDS = ("list", "train", "sweep", "evaluate", "predict", "solve", "plot", "reference", "info", "bench")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Caches of their own for test sets and compiled programs, so that the second process need not compile again."""
    base = tmp_path_factory.mktemp("caches")
    own = {
        "SEPONET_CACHE": str(base / "testsets"),
        "JAX_COMPILATION_CACHE_DIR": str(base / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "PYTHONPATH": str(ROOT),
    }
    return {**os.environ, **own}


class Command:
    """The command in a process of its own, in a folder with a small recipe."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        self.folder, self.environment = folder, environment
        (folder / "tiny.toml").write_text(RECIPE)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # As in `conftest.py`: a calibration takes longer than these trainings.
        without = ("--calibration", "0") if arguments[0] == "train" else ()
        return subprocess.run(
            [sys.executable, "-m", "seponet", *arguments, *without],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
        )


@pytest.fixture(scope="module")
def seponet(environment, tmp_path_factory):
    return Command(tmp_path_factory.mktemp("work"), environment)


def start_long(seponet, environment, *arguments: str) -> subprocess.Popen[str]:
    """A training in a process group of its own, with thousands of steps to go. It can be interrupted wherever the tests
    run: a shell starts what is in its background with interrupts ignored, and children inherit that."""
    command = [
        sys.executable,
        "-m",
        "seponet",
        "train",
        *arguments,
        "--set",
        "train.steps=10000000",
        "--calibration",
        "0",
    ]
    pipes = {"stderr": subprocess.PIPE, "text": True}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(command, cwd=seponet.folder, env=environment, start_new_session=True, **pipes)
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for(process: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    """Wait until something holds that a training brings about; one that never does so is ended, not left running."""
    deadline = time.monotonic() + 200
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"the training did not come so far; it said: {process.communicate()[1]}")
        time.sleep(0.05)


@pytest.fixture(scope="module")
def killed(seponet, environment):
    """A run that was killed after a checkpoint, while it had thousands of steps to go."""
    process = start_long(seponet, environment, "heat", "--recipe", "tiny.toml", "--out", "killed")
    checkpoints = seponet.folder / "killed" / "checkpoints"
    wait_for(process, lambda: any(step > 1 for step in Checkpoints(checkpoints).steps()))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()  # which closes the pipe
    return seponet.folder / "killed"


@pytest.fixture(scope="module")
def finished(seponet):
    """A run of the heat equation, with its table."""
    done = seponet("train", "heat", "--recipe", "tiny.toml", "--out", "done", "--functions", "3", "--no-figures")
    # A few steps learn little, and the exit code says so.
    assert done.returncode == 3, done.stderr
    assert "the validation error is" in done.stderr
    return seponet.folder / "done", done


def fails(capsys, *arguments: str) -> str:
    """The one sentence with which a command fails, in this process."""
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith(f"seponet {arguments[0]}: ")
    return lines[0]


def test_help_needs_no_jax(environment):
    code = (
        "import sys\nfrom seponet.cli import main\n"
        "try:\n    main(['train', '--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print([m for m in ('jax', 'numpy', 'rich', 'xarray', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"examples:\n  seponet {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["trian"],
        ["train"],
        ["train", "heat", "--set", "train.steps"],
        ["train", "heat", "--budget", "soon"],
        ["train", "heat", "--resume", "--overwrite"],
        ["train", "heat", "--config", "config.toml"],
        ["train", "--resume"],
        ["predict", "run", "--input", "u.npy", "--output", "s.nc", "--grid", "t=many"],
    ],
)
def test_wrong_calls_end_with_two(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert capsys.readouterr().err


def test_list_shows_problems_with_the_papers_errors(capsys):
    assert main(["list", "--json"]) == 0
    problems = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["problems"]}
    assert len(problems) == 7
    assert problems["burgers"]["paper"]["relative_l2_mean"] == 0.0751
    assert problems["heat"]["paper"] is None
    assert "s_t + s s_x = ν s_xx" in problems["burgers"]["equation"]
    assert all("quick" in entry["recipes"] for entry in problems.values())
    assert [name for name, entry in problems.items() if "paper" not in entry["recipes"]] == ["advection_informed"]
    assert not any("\\" in entry["equation"] or "$" in entry["equation"] for entry in problems.values())
    assert main(["list"]) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in problems)
    assert "7.51%" in table


def test_training_ends_with_a_report_and_a_table(finished):
    run, done = finished
    report = json.loads((run / "report.json").read_text())
    assert report["functions"] == 3
    assert len(report["per_function"]["relative_l2"]) == 3
    assert report["relative_l2_mean"] == pytest.approx(np.mean(report["per_function"]["relative_l2"]))
    assert report["rmse_std"] == pytest.approx(np.std(report["per_function"]["rmse"]))
    assert report["maximum_mean"] > report["rmse_mean"]
    assert report["steps"] == 30
    assert 0 < report["validation_relative_l2"] < 10
    assert report["residuals"]["equation"]["max"] >= report["residuals"]["equation"]["mean"] > 0
    assert "contractions a step" in done.stderr
    assert f"{100 * report['relative_l2_mean']:.3g}%" in done.stdout
    assert "unseen functions" in done.stdout


def test_evaluate_agrees_with_the_report_and_predict_with_the_equation(finished, seponet):
    run, _ = finished
    report = json.loads((run / "report.json").read_text())
    evaluated = seponet("evaluate", "done", "--functions", "3", "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    found = json.loads(evaluated.stdout)
    assert found["relative_l2_mean"] == pytest.approx(report["relative_l2_mean"], rel=1e-4)
    assert found["training_seconds"] == report["training_seconds"]
    x = np.linspace(0, 1, 16)
    inputs = np.stack([np.sin(np.pi * x), 0.3 * np.sin(2 * np.pi * x)])
    np.savetxt(seponet.folder / "u.csv", inputs, delimiter=",")
    predicted = seponet("predict", "done", "--input", "u.csv", "--output", "s.nc", "--grid", "t=5,x=16")
    assert predicted.returncode == 0, predicted.stderr
    assert "equation" in predicted.stdout
    with xr.open_dataarray(seponet.folder / "s.nc", engine="netcdf4") as s:
        assert dict(s.sizes) == {"function": 2, "t": 5, "x": 16}
        # The conditions hold by construction, whatever the training.
        np.testing.assert_allclose(s.sel(t=0), inputs, atol=1e-5)
        np.testing.assert_allclose(s.isel(x=[0, -1]), 0, atol=1e-5)


def test_evaluate_against_a_solver_like_the_papers(finished, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SEPONET_CACHE", str(tmp_path))
    before = (finished[0] / "report.json").read_text()
    assert main(["evaluate", str(finished[0]), "--functions", "2", "--reference", "paper", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["reference"], found["reference_error"], found["functions"]) == ("paper", None, 2)
    # The coarse solver is off by about a percent, the model by much more.
    assert found["relative_l2_mean"] == pytest.approx(
        np.mean(json.loads(before)["per_function"]["relative_l2"][:2]), rel=0.1
    )
    assert (finished[0] / "report.json").read_text() == before


def test_the_papers_figures_stand_beside_ours(capsys):
    operator = Operator(zoo.small(Burgers()))
    errors = {"relative_l2_mean": 0.004, "relative_l2_std": 0.001, "rmse_mean": 0.002, "training_seconds": 49.0}
    residuals = {"equation": {"mean": 0.1, "max": 0.2}}
    show_report(
        operator,
        {**errors, "functions": 100, "reference": "converged", "reference_error": 1e-6, "residuals": residuals},
    )
    shown = capsys.readouterr().out
    assert re.search(r"relative L2 error +0\.4% ± 0\.1% +7\.51% ± 4%", shown)
    assert re.search(r"training time +49 s +3\.6 min", shown)
    assert "its own error is about 0.0001%" in shown


def test_killed_run_is_resumed_from_its_checkpoint(killed, seponet, capsys):
    refused = fails(capsys, "evaluate", str(killed))
    assert f"not been trained to its end; go on with it: seponet train --resume --out {killed}" in refused
    newest = max(Checkpoints(killed / "checkpoints").steps())
    again = seponet("train", "--resume", "--out", "killed", "--budget", "1s", "--functions", "0", "--no-figures")
    assert again.returncode == 3, again.stderr  # a few steps have learned little
    steps = [json.loads(line)["step"] for line in (killed / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)
    assert steps[0] < newest <= steps[-1]
    report = json.loads((killed / "report.json").read_text())
    assert newest <= report["steps"] < 10000000
    assert report["interrupted"]
    assert main(["info", str(killed), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == f"stopped after {report['steps']} of 10000000 steps"


FULL = """
mount -t tmpfs -o size=100k tmpfs "$1" || exit 77
cd "$1"
"$2" -m seponet train heat --recipe "$3" --out run --quiet --functions 0 --no-figures --calibration 0
test $? -eq 1 || exit 78
mount -o remount,size=10m tmpfs "$1" || exit 77
"$2" -m seponet train --resume --out run --quiet --functions 0 --no-figures --calibration 0
test $? -eq 3 || exit 79  # it is complete, and says that a few steps have learned little
mount -o remount,ro tmpfs "$1" || exit 77
"$2" -m seponet train heat --recipe "$3" --out other --quiet --functions 0 --no-figures --calibration 0
test $? -eq 1
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="a small disk of one's own needs the namespaces of Linux")
def test_a_full_disk_and_one_that_is_read_only_are_named_and_the_run_goes_on_when_there_is_room(
    seponet, environment, tmp_path
):
    given = [str(tmp_path), sys.executable, str(seponet.folder / "tiny.toml")]
    command = ["unshare", "-rm", "sh", "-c", FULL, "sh", *given]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no disk can be mounted here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    # Old releases of other packages warn on standard error, too.
    full, locked = (line for line in done.stderr.splitlines() if line.startswith("seponet"))
    assert "Traceback" not in done.stderr
    assert re.match(r"seponet train: checkpoint \d+ needs about 1.\d MB in .* and 0.1 MB are free: make room", full)
    assert locked == "seponet train: Read-only file system: other"


def interrupt(process: subprocess.Popen[str]) -> str:
    """What a process says after an interrupt. One that arrives while a callback of another library runs is lost, as
    Python has it, and is sent again, as a person would."""
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    process.communicate()
    raise AssertionError("the run does not end by an interrupt")


def test_a_run_is_repeated_from_its_configuration_and_an_interrupt_ends_with_a_checkpoint(
    finished, seponet, environment
):
    process = start_long(seponet, environment, "--config", "done/config.toml", "--out", "interrupted")
    metrics = seponet.folder / "interrupted" / "metrics.jsonl"
    wait_for(process, lambda: metrics.exists() and metrics.read_text())
    shown = interrupt(process)
    assert process.returncode == 1
    assert shown.splitlines()[-1].endswith("go on with: seponet train --resume --out interrupted")
    report = json.loads((seponet.folder / "interrupted" / "report.json").read_text())
    assert report["interrupted"]
    before = json.loads((finished[0] / "report.json").read_text())
    assert all(report[key] == before[key] for key in ("problem", "recipe", "seed", "constants", "parameters"))
    assert (seponet.folder / "interrupted" / "checkpoints" / f"{report['steps']}.npz").is_file()


def test_corrupt_checkpoints_are_named(finished, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(finished[0], run)
    shutil.rmtree(run / "operator")
    for file in (run / "checkpoints").rglob("*"):
        if file.is_file():
            file.write_bytes(b"\0" * 7)
    assert main(["train", "--resume", "--out", str(run), "--quiet", "--functions", "0", "--no-figures"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "checkpoints" in last
    assert "can be read" in last
    assert "--overwrite" in last


def test_corrupt_operator_is_named(finished, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(finished[0], run)
    (run / "operator" / "operator.json").write_text("{")
    assert "operator.json is damaged" in fails(capsys, "evaluate", str(run))
    (run / "report.json").write_text("{")
    assert "report.json is damaged" in fails(capsys, "info", str(run))


@pytest.mark.parametrize("command", ["evaluate", "info", "plot"])
def test_missing_run_is_named(command, capsys):
    assert "there is no run nowhere" in fails(capsys, command, "nowhere")


def test_bad_inputs_are_rejected_in_one_sentence(finished, tmp_path, capsys):
    run = str(finished[0])
    files = {
        "nan.npy": np.where(np.arange(16) == 5, np.nan, 1.0),
        "cube.npy": np.ones((2, 3, 16)),
        "text.csv": "u\n1,2,x\n",
        "none.txt": "1",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.write_text(content) if isinstance(content, str) else np.save(path, content)
    output = str(tmp_path / "s.nc")

    def predict(name: str, *more: str) -> str:
        return fails(capsys, "predict", run, "--input", str(tmp_path / name), "--output", output, *more)

    assert "input 'u' must be finite; got nan" in predict("nan.npy")
    assert "must have the axes [x] or [functions, x]; got the shape (2, 3, 16)" in predict("cube.npy")
    assert "can't be read as the input 'u'" in predict("text.csv")
    assert "must be a file that ends in .npy, .csv, .nc" in predict("none.txt")
    assert "there is no file" in predict("missing.npy")
    np.save(tmp_path / "u.npy", np.ones(16))
    assert "--grid names z; the axes are t, x" in predict("u.npy", "--grid", "z=3")
    same = str(tmp_path / "u.npy")
    assert "would overwrite an input" in fails(capsys, "predict", run, "--input", same, "--output", same)
    assert "must end in .nc or .npy" in fails(capsys, "predict", run, "--input", same, "--output", "s.png")
    assert "give --input u=FILE" in fails(capsys, "predict", run, "--output", output)
    assert not Path(output).exists()


def test_bad_settings_are_rejected_in_one_sentence(tmp_path, capsys):
    out = ["--out", str(tmp_path / "run")]
    assert "did you mean 'heat'" in fails(capsys, "train", "heet", *out)
    assert "did you mean 'paper'" in fails(capsys, "train", "heat", "--recipe", "papr", *out)
    assert "did you mean 'steps'" in fails(capsys, "train", "heat", "--set", "train.stps=3", *out)
    assert "there is no configuration" in fails(capsys, "train", "--config", str(tmp_path / "none.toml"))
    recipe = tmp_path / "mine.toml"
    recipe.write_text("[model]\nrnk = 3\n")
    assert "did you mean 'rank'" in fails(capsys, "train", "heat", "--recipe", str(recipe), *out)
    assert "depends on constants only" in fails(capsys, "reference", "heat", "--set", "train.steps=3")
    assert not (tmp_path / "run").exists()


def test_places_that_can_not_be_written_are_named(finished, tmp_path, capsys):
    assert "exists already" in fails(capsys, "train", "heat", "--out", str(finished[0]))
    (tmp_path / "file").touch()
    below = str(tmp_path / "file" / "run")
    sentence = fails(
        capsys, "train", "heat", "--quiet", "--recipe", str(finished[0].parent / "tiny.toml"), "--out", below
    )
    assert "Not a directory" in sentence
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if not os.access(locked, os.W_OK):
        arguments = ["--quiet", "--recipe", str(finished[0].parent / "tiny.toml"), "--out", str(locked / "run")]
        assert "Permission denied" in fails(capsys, "train", "heat", *arguments)


def test_reference_tells_its_own_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SEPONET_CACHE", str(tmp_path))
    assert main(["reference", "heat", "--functions", "2"]) == 0
    shown = capsys.readouterr().out
    assert "2 test functions of Heat" in shown
    assert float(shown.split("reference: ")[1].split(" ")[0]) < 1e-6
    assert len(list((tmp_path / "testsets").glob("heat-test-*.nc"))) == 1


def test_benchmarks_are_dispatched(tmp_path, capfd, monkeypatch):
    # A checkout is found from the folder that one is in, however the package was installed.
    checkout, tmp_path = tmp_path, tmp_path / "benchmarks"
    (tmp_path / "results").mkdir(parents=True)
    (checkout / "pyproject.toml").write_text('[project]\nname = "seponet"\n')
    monkeypatch.chdir(tmp_path / "results")
    assert "checkout of the repository" in fails_plainly(capfd, "bench", "speed")
    script = "if __name__ == '__main__':\n    import sys; print(sys.argv[1:]); raise SystemExit(3)"
    (tmp_path / "speed.py").write_text(f'"""How fast it is.\n\nIn detail."""\n{script}')
    (tmp_path / "shared.py").write_text("import sys\nx = sys.modules['__main__']")
    (tmp_path / "_driver.py").write_text(script)
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "__main__.py").write_text(f'"""How large it is."""\n{script}')
    assert main(["bench"]) == 0
    assert capfd.readouterr().out == "seponet bench memory  How large it is.\nseponet bench speed   How fast it is.\n"
    assert "did you mean 'speed'" in fails_plainly(capfd, "bench", "sped")
    for name in ("speed", "memory"):
        assert main(["bench", name, "--json", "2"]) == 1
        assert capfd.readouterr().out == "['--json', '2']\n"
    # Another project's folder of benchmarks is not ours: those of the checkout that is installed in place are listed.
    (checkout / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert main(["bench"]) == 0
    assert "seponet bench zoo" in capfd.readouterr().out


def fails_plainly(capfd, *arguments: str) -> str:
    assert main(arguments) == 1
    return capfd.readouterr().err


def test_debug_shows_where_an_error_comes_from(capsys):
    assert main(["evaluate", "nowhere", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err
