"""Trainings of several processes: the trajectory of one, and nothing is lost with a process."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import in_networks, skip_without_networks

from seponet.runs.config import RunConfig
from seponet.runs.train import run
from seponet.training.log import read_history

HERE = Path(__file__).parent
PROBLEM = f"{HERE / 'data' / 'decay.py'}:Decay"
RESIDUALS, TARGETS = HERE / "data" / "decay.toml", HERE / "data" / "decay_targets.toml"
SECONDS = 600


def train_command(out: Path, recipe: Path, *more: str) -> list[str]:
    command = [sys.executable, "-m", "seponet", "train", PROBLEM, "--recipe", str(recipe), "--out", str(out), *more]
    return [*command, "--functions", "0", "--calibration", "0", "--no-figures"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def slurm_task(index: int, count: int) -> dict[str, str]:
    """What `srun` sets in a task of a step on one machine, by its manual. The step's number makes the port."""
    names = {"JOB_ID": 77, "STEP_ID": os.getpid(), "STEP_NUM_TASKS": count, "STEP_NUM_NODES": 1, "PROCID": index}
    names |= {"STEP_TASKS_PER_NODE": count, "STEP_NODELIST": "node1", "NTASKS": count, "LOCALID": index}
    return {f"SLURM_{name}": str(value) for name, value in names.items()}


class Members:
    """The processes of one `seponet train`, started by flags, or as `srun` does it."""

    def __init__(self, count: int, out: Path, recipe: Path, *more: str, srun: bool = False) -> None:
        command, environ = train_command(out, recipe, *more), {**os.environ, "PYTHONPATH": str(HERE.parent)}
        if not srun:
            command += ["--processes", str(count), "--coordinator", f"127.0.0.1:{free_port()}", "--process-id"]
        # Each has a core of its own, if there are as many: collective operations wait for the slowest.
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self.out = out
        self.processes = [
            subprocess.Popen(
                command if srun else [*command, str(i)],
                env=environ | (slurm_task(i, count) if srun else {}),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for i in range(count)
        ]
        for i, process in enumerate(self.processes):
            if cores:
                os.sched_setaffinity(process.pid, {cores[i % len(cores)]})

    def wait_for(self, steps: int) -> None:
        """Until the log has an entry of a step after the first ones."""
        deadline = time.monotonic() + SECONDS
        while not any(entry["step"] >= steps for entry in read_history(self.out / "metrics.jsonl")):
            assert time.monotonic() < deadline
            assert all(process.poll() is None for process in self.processes), self.end()
            time.sleep(0.02)

    def end(self) -> list[tuple[int, str, str]]:
        """Exit codes and what they wrote."""
        ended = [process.communicate(timeout=SECONDS) for process in self.processes]
        return [(process.returncode, *texts) for process, texts in zip(self.processes, ended, strict=True)]

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def start():
    started: list[Members] = []

    def make(*arguments: Any, **options: Any) -> Members:
        started.append(Members(*arguments, **options))
        return started[-1]

    yield make
    for members in started:
        members.kill()


def train_alone(recipe: Path, out: Path, *, resume: bool = False) -> None:
    run(RunConfig.make(PROBLEM, recipe), out=out, resume=resume, functions=0, calibration=0, figures=False, quiet=True)


def last_state(out: Path) -> list[np.ndarray]:
    newest = max((out / "checkpoints").glob("*.npz"), key=lambda path: int(path.stem))
    with np.load(newest) as stored:
        return [stored[name] for name in sorted(stored.files) if name != "meta"]


def assert_same_state(out: Path, other: Path, digits: float) -> None:
    for mine, theirs in zip(last_state(out), last_state(other), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=digits * max(1.0, np.max(np.abs(theirs), initial=0)))


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[Path, Path]:
    """The runs of one process."""
    folder = tmp_path_factory.mktemp("alone")
    for recipe in (RESIDUALS, TARGETS):
        train_alone(recipe, folder / recipe.stem)
    return {recipe: folder / recipe.stem for recipe in (RESIDUALS, TARGETS)}


def test_two_processes_train_as_one(alone, start, tmp_path):
    """Tasks of a step of Slurm's, on targets that they solve, with functions that have no even split; the second is
    silent and writes nothing."""
    members = start(2, tmp_path / "two", TARGETS, srun=True)
    (code, _, said), (other, *silence) = members.end()
    assert (code, other) == (0, 0), said
    assert silence == ["", ""]
    assert "2 processes on" in said
    assert "started by Slurm, process 0 at 127.0.0.1:" in said
    assert "2 devices share the 7 functions of a step: at most 4 each" in said
    assert_same_state(tmp_path / "two", alone[TARGETS], 1e-10)
    assert not list((tmp_path / "two").glob(".*"))


def test_mpirun_trains_as_one_process(alone, tmp_path):
    mpirun = ["mpirun", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "-n", "2"]
    if shutil.which("mpirun") is None:
        pytest.skip("needs Open MPI's mpirun")
    probe = subprocess.run([*mpirun, "true"], capture_output=True, text=True, timeout=SECONDS)
    if probe.returncode:
        pytest.skip(f"mpirun starts nothing here: {probe.stderr.strip()[:200]}")
    found = subprocess.run(
        [*mpirun, *train_command(tmp_path / "mpi", TARGETS)],
        env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert found.returncode == 0, found.stderr
    assert "2 processes on" in found.stderr
    assert "started by Open MPI" in found.stderr
    # One of them says where the run is.
    assert found.stdout.count("The run is in") == 1
    assert_same_state(tmp_path / "mpi", alone[TARGETS], 1e-10)


def test_a_request_to_one_of_four_checkpoints_all_and_one_goes_on(alone, start, tmp_path):
    members = start(4, tmp_path / "run", RESIDUALS)
    members.wait_for(20)
    members.processes[3].send_signal(signal.SIGTERM)
    (code, _, said), *others = members.end()
    assert code == 1
    assert "stopped by a signal after step" in said
    assert others == [(0, "", "")] * 3
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["end"] == "interrupt"
    assert 0 < report["steps"] < 400
    train_alone(RESIDUALS, tmp_path / "run", resume=True)
    # Round-off of the order of summation, grown over 400 steps.
    assert_same_state(tmp_path / "run", alone[RESIDUALS], 1e-6)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_process_that_is_killed_ends_the_other_and_nothing_is_lost(lost, alone, start, tmp_path):
    members = start(2, tmp_path / "run", RESIDUALS, "--set", "train.checkpoint=0")
    members.wait_for(20)
    members.processes[lost].kill()
    began = time.monotonic()
    ended = members.end()
    assert time.monotonic() - began < 60
    code, _, said = ended[1 - lost]
    assert code != 0
    assert f"process {lost} of 2" in said
    assert "was lost" in said
    config = RunConfig.make(PROBLEM, RESIDUALS, changes={"train.checkpoint": 0})
    run(config, out=tmp_path / "run", resume=True, functions=0, calibration=0, figures=False, quiet=True)
    assert_same_state(tmp_path / "run", alone[RESIDUALS], 1e-6)


def test_a_training_on_two_machines_whose_cable_is_cut_goes_on_from_its_checkpoint(alone, tmp_path):
    """They have no disk in common but this machine's, no name that the other knows, and no packet comes any more."""
    skip_without_networks()
    out = tmp_path / "run"
    command = shlex.join([sys.executable, str(HERE / "train_member.py"), *train_command(out, RESIDUALS)[3:]])
    command += " --processes 2 --coordinator 10.77.0.1:5000 --process-id"
    script = f"""
    ip netns exec one {command} 0 > /run/one 2>&1 & first=$!
    ip netns exec two {command} 1 > /run/two 2>&1 & second=$!
    until grep -q loss {out}/metrics.jsonl 2> /dev/null; do
        sleep 0.1
        kill -0 $first || break
    done
    ip -n one link set left down
    cut=$SECONDS
    wait $first || echo "first failed"
    wait $second || echo "second failed"
    echo "ended after $((SECONDS - cut)) s"
    cat /run/one /run/two
    """
    environ = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    found = subprocess.run(in_networks(script), capture_output=True, text=True, timeout=SECONDS, env=environ)
    said = found.stdout
    assert found.returncode == 0, said + found.stderr
    assert "2 processes on" in said, said
    assert "first failed" in said
    assert "second failed" in said
    assert "process 1 of 2" in said
    assert "process 0 of 2" in said
    assert said.count("was lost") == 2
    ended = re.search(r"ended after (\d+) s", said)
    assert ended is not None
    assert int(ended[1]) < 60
    train_alone(RESIDUALS, out, resume=True)
    assert_same_state(out, alone[RESIDUALS], 1e-6)


def test_an_error_is_said_once(start, tmp_path):
    """The folder exists: the leader says so, and the others end without a word."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    (code, _, said), other = start(2, tmp_path / "other", RESIDUALS).end()
    assert code == 1
    assert "holds other things than a run" in said
    assert other == (1, "", "")
