"""Several devices: functions are split among them, and nothing else changes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
OPTIONS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


def start(output: Path, devices: int, here: int, process: int = 0, meeting: str = "") -> subprocess.Popen:
    """A step on a mesh of `devices`, `here` of them in this process."""
    flags = {"XLA_FLAGS": f"{OPTIONS} --xla_force_host_platform_device_count={here}"}
    command = [sys.executable, str(HERE / "sharded_step.py"), str(output), str(devices), str(process), meeting]
    return subprocess.Popen(
        command, env={**os.environ, **flags, "PYTHONPATH": str(HERE.parent)}, stderr=subprocess.PIPE
    )


def read(output: Path, process: subprocess.Popen) -> dict[str, np.ndarray]:
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()
    with np.load(output) as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    output = tmp_path_factory.mktemp("alone") / "one.npz"
    return read(output, start(output, 1, 1))


def agree(found: dict[str, np.ndarray], alone: dict[str, np.ndarray]) -> None:
    """Loss and gradient, to round-off."""
    assert set(found) == set(alone)
    for name in set(found) - {"share"}:
        np.testing.assert_allclose(found[name], alone[name], rtol=0, atol=1e-13 * np.max(np.abs(alone[name])))


def test_four_devices_make_the_step_of_one(alone, tmp_path):
    found = read(tmp_path / "four.npz", start(tmp_path / "four.npz", 4, 4))
    agree(found, alone)
    assert alone["share"][1] == 8
    assert found["share"][1] == 2


def test_two_processes_make_the_step_of_one(alone, tmp_path):
    processes = [start(tmp_path / f"{i}.npz", 2, 1, i, str(tmp_path / "address")) for i in range(2)]
    try:
        for i, process in enumerate(processes):
            found = read(tmp_path / f"{i}.npz", process)
            agree(found, alone)
            assert found["share"][1] == 4
    finally:
        for process in processes:  # one that failed leaves the other waiting for it
            process.kill()
