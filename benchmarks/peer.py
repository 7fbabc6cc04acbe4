"""What every peer is asked to do, in its own environment: this file and the drivers of peers import nothing of seponet.

A driver is called as `python _drive_<name>.py TASK.npz SETTINGS.json OUT.json`. The task holds the same input
functions at sensors for everybody, to train with and to test on, and the reference solutions of the latter.
"""

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Task:
    """Input functions at sensors, and solutions.

    - `sensors`: their coordinates; for several axes those along each, which are the same.
    - `train`, `test`: values of functions, `[functions, sensors]`.
    - `t`, `x`: the grid of the solutions (all further axes are like x); `solution`: `[functions, t, x...]`.
    """

    sensors: np.ndarray
    train: np.ndarray
    test: np.ndarray
    t: np.ndarray
    x: np.ndarray
    solution: np.ndarray

    def error(self, predicted: np.ndarray) -> float:
        """Mean relative L2 error over the test functions."""
        exact = self.solution.reshape(len(self.solution), -1).astype(np.float64)
        difference = predicted.reshape(exact.shape).astype(np.float64) - exact
        return float(np.mean(np.linalg.norm(difference, axis=1) / np.linalg.norm(exact, axis=1)))


def peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def time_steps(advance: Callable[[int], None]) -> dict[str, float]:
    """Median seconds of a step over five blocks of about a fifth of a second; the first step compiles."""
    advance(1)
    began = time.perf_counter()
    advance(1)
    block = max(1, min(50, int(0.2 / (time.perf_counter() - began))))
    times: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        advance(block)
        times.append((time.perf_counter() - began) / block)
        if sum(times) * block > 15:
            break
    return {"seconds": statistics.median(times), "steps": 2 + block * len(times)}


def fit(
    advance: Callable[[int], None],
    error: Callable[[], float],
    timed: Mapping[str, float],
    seconds: float,
    target: float,
) -> dict[str, Any]:
    """Train for a number of seconds, counting steps alone; the clock stands still while errors are measured.

    The steps of `time_steps`, made before, count as its median says: without compilation.
    Errors are measured at times that grow by a fifth; training does not stop where the target is reached.
    """
    each, steps = timed["seconds"], int(timed["steps"])
    spent = steps * each
    due = max(spent, 0.1)
    history: list[tuple[float, float]] = []
    reached: float | None = None
    while spent < seconds:
        count = max(1, int((min(due, seconds) - spent) / each))
        began = time.perf_counter()
        advance(count)
        spent, steps = spent + time.perf_counter() - began, steps + count
        if spent >= min(due, seconds):
            history.append((spent, error()))
            due = max(1.2 * due, spent)
            if reached is None and history[-1][1] <= target:
                reached = spent
    last = history[-1][1] if history else error()
    return {"error": last, "trained_seconds": spent, "steps": steps, "reached_seconds": reached, "history": history}


def time_prediction(predict: Callable[[], object], functions: int) -> dict[str, float]:
    """Functions a second: the median of a few calls, as many as fit in three seconds."""
    predict()
    times: list[float] = []
    while not times or (len(times) < 20 and sum(times) < 3):
        began = time.perf_counter()
        predict()
        times.append(time.perf_counter() - began)
    return {"seconds": statistics.median(times), "functions_per_second": functions / statistics.median(times)}


def drive(run: Callable[[Task, Mapping[str, Any]], Mapping[str, Any]]) -> None:
    """The main function of a driver."""
    task, text, out = sys.argv[1:]
    settings = json.loads(text)
    if settings["memory_bytes"]:
        # An allocation beyond it fails, instead of taking the machine down.
        resource.setrlimit(resource.RLIMIT_AS, (settings["memory_bytes"],) * 2)
    with np.load(task) as arrays:
        result = run(Task(**arrays), settings)
    with open(out, "w") as file:
        json.dump({**result, "process_bytes": peak_bytes()}, file)
