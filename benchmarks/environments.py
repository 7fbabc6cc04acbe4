"""Environments of peers, made from PyPI under `.cache/peers/`, and the task files that all of them read."""

import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seponet._machine import available_memory

HERE = Path(__file__).parent
FOLDER = HERE.parent / ".cache" / "peers"
PACKAGES = {
    "reference": ("separable-operator-networks==0.0.2", "jax==0.10.2", "equinox==0.13.8"),
    "deepxde": ("deepxde==1.15.0", "torch==2.13.0"),
}
MODULES = {
    "separable_operator_networks": ("separable-operator-networks==0.0.2", "gputil==1.4.0"),
    "skfem": ("scikit-fem==12.0.2",),
}
"""Packages that are compared in our own process, interleaved with us; all else that they import, we have."""
POOL = 2000
"""Functions to train with; drawn like ours, from a key of their own."""
SHARE = 0.85
"""Of the free memory that a peer may take before its allocations fail."""


OUT_OF_MEMORY = r"MemoryError|bad_alloc|RESOURCE_EXHAUSTED|[Cc]an.?t allocate|[Oo]ut of memory|not enough memory"


def python_of(peer: str) -> Path:
    """The interpreter of a peer's environment, which is installed first if it isn't there."""
    folder = FOLDER / peer
    python, stamp = folder / "bin" / "python", folder / ".installed"
    if stamp.exists() and stamp.read_text() == " ".join(PACKAGES[peer]):
        return python
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
    _install(peer, [str(python), "-m", "pip", "install", "--quiet", *PACKAGES[peer]])
    # Written last: an installation that was interrupted is done again.
    stamp.write_text(" ".join(PACKAGES[peer]))
    return python


def _install(what: str, command: Sequence[str]) -> None:
    installation = subprocess.run(command, capture_output=True, text=True)
    if installation.returncode:
        errors = [line for line in installation.stderr.splitlines() if line.startswith("ERROR")] or ["no message"]
        raise RuntimeError(f"{what} can't be installed here: {errors[-1]}")


def make_importable(module: str) -> None:
    """Let this process import a package that is no dependency of ours; it is installed first if it isn't there.

    It gets a folder of its own and brings no dependencies, so that our environment stays what it is.
    """
    if importlib.util.find_spec(module) is not None:
        return
    folder = FOLDER / "modules"
    sys.path.append(str(folder))
    importlib.invalidate_caches()
    if importlib.util.find_spec(module) is None:
        print(f"installing {', '.join(MODULES[module])} into {folder}", file=sys.stderr, flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        _install(module, [*install, "--upgrade", *MODULES[module]])
        importlib.invalidate_caches()


def task_file(name: str, what: str) -> Path:
    """The task of a problem: "train", with reference solutions, or "predict", on 101 points along each axis."""
    import jax

    from seponet.evaluation.testset import draw_functions, load_testset
    from seponet.locations import Grid
    from seponet.problems import PROBLEMS
    from seponet.runs.recipes import load_recipe

    path = FOLDER / "tasks" / f"{name}-{what}.npz"
    if path.exists():
        return path
    problem = PROBLEMS[name]()
    ((key, space),) = problem.inputs.items()
    count = load_recipe("paper", name).model.sensors
    axes = [axis for _, axis in space.domain.axes]
    sensors = np.linspace(axes[0].lower, axes[0].upper, count)
    grid = Grid(space.domain.names, (jax.numpy.asarray(sensors),) * len(axes))

    def values(inputs: Mapping[str, Any]) -> np.ndarray:
        samples = np.asarray(inputs[key](grid))
        return samples.reshape(len(samples), -1).astype(np.float32)

    if what == "train":
        test = load_testset(problem, "test", 100)
        train = values(problem.sample(jax.random.key(11), POOL))
        t, x, solution, inputs = test.points["t"], test.points["x"], test.solution("s"), test.inputs
    else:
        inputs, train = draw_functions(problem, "test", 100), np.zeros((0, 0))
        points = problem.domain["t"], problem.domain["x"]
        t, x = (np.linspace(axis.lower, axis.upper, 101) for domain in points for _, axis in domain.axes)
        solution = np.zeros((1,) * (1 + len(problem.domain)))
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {"sensors": sensors, "train": train, "test": values(inputs), "t": t, "x": x, "solution": solution}
    temporary = path.with_suffix(".new.npz")
    np.savez(temporary, **arrays)
    temporary.replace(path)
    return path


def prepare(problems: Sequence[str], what: str) -> None:
    """All environments and task files; what can't be installed is said here, and again by the cells that need it."""
    for peer in PACKAGES:
        try:
            python_of(peer)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            print(error, flush=True)
    for problem in problems:
        task_file(problem, what)


def drive(peer: str, problem: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Run a peer's driver on a problem; what it reports."""
    python = python_of(peer)
    task = task_file(problem, settings["what"])
    free = available_memory()
    settings = {**settings, "memory_bytes": None if free is None else int(SHARE * free)}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [str(python), str(HERE / f"_drive_{peer}.py"), str(task), json.dumps(settings), str(out)]
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        ended = subprocess.run(command, capture_output=True, text=True, env=clean)
        if ended.returncode == 0 and out.exists():
            return json.loads(out.read_text())
    lines = [line for line in ended.stderr.strip().splitlines() if line.strip()] or ["no message"]
    if ended.returncode == -9 or re.search(OUT_OF_MEMORY, ended.stderr):
        raise MemoryError("out of memory")
    raise RuntimeError(lines[-1])
