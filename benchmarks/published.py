"""The paper's Tables 3, 6 and 7 as data: the authors' figures, from one A100 with 80 GB.

`paper.csv` has a row for each figure; an empty value means that it did not fit in their memory.
"""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from seponet.runs.recipes import load_recipe

METRICS = {"relative_l2_percent": 0.01, "rmse_e-2": 0.01, "memory_gb": 1e9, "hours_a100": 3600.0}
"""The table's units in ours: fractions, bytes, seconds."""


@cache
def figures(column: str = "value") -> Mapping[tuple[str, str, str, int, int], float | None]:
    """(problem, model, metric, points, functions) to the figure, or its `std`, in fractions, bytes or seconds."""
    with (Path(__file__).parent / "paper.csv").open() as file:
        return {
            (row["problem"], row["model"], row["metric"], int(row["points"]), int(row["functions"])): (
                METRICS[row["metric"]] * float(row[column]) if row[column] else None
            )
            for row in csv.DictReader(file)
        }


def error(problem: str, model: str, points: int, functions: int) -> float | None:
    return figures().get((problem, model, "relative_l2_percent", points, functions))


def spread(problem: str, points: int) -> float | None:
    """The standard deviation of SepONet's error over 100 functions."""
    return figures("std").get((problem, "SepONet", "relative_l2_percent", points, 100))


def memory(problem: str, model: str, points: int, functions: int) -> float | None:
    return figures().get((problem, model, "memory_gb", points, functions))


def steps(problem: str) -> int:
    """The steps of the paper's training."""
    count = load_recipe("paper", problem).train.steps
    assert isinstance(count, int)
    return count


def step_seconds(problem: str, model: str, points: int, functions: int) -> float | None:
    """The time of a training run over its iterations."""
    seconds = figures().get((problem, model, "hours_a100", points, functions))
    return None if seconds is None else seconds / steps(problem)
