"""Training from end to end: from a name to an operator, with a run folder if one is wanted."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._machine import available_memory, matmul_rate
from .._text import parse_duration, plain, show_duration
from ..equations.problem import Problem
from ..evaluation.errors import measure
from ..evaluation.report import training_report
from ..evaluation.testset import load_testset
from ..losses.supervised import Data
from ..operator.operator import Operator, load
from ..training.cost import estimate_cost
from ..training.loop import TrainingResult, Validate, in_precision_of, prepare, train_model
from ..training.ranks import resolve_auto
from ..training.recipe import Recipe
from ..training.step import TrainStep
from .config import RunConfig, read_tables
from .folder import RunFolder

VALIDATION_FUNCTIONS, VALIDATION_POINTS = 20, 33
"""How many functions are validated on, and the most points along an axis."""


def train(
    problem: str | type[Problem] | Problem,
    recipe: str | Path | Recipe = "quick",
    *,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    budget: float | str | None = None,
    data: Data | None = None,
    quiet: bool = False,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the name of the option on the command line
) -> Operator:
    """Train an operator from the equation alone.

    ```python
    operator = seponet.train("burgers", set={"train.steps": 1000})
    ```

    **Arguments:**

    - `problem`: a registered name, `path/to/file.py:ClassName`, a `Problem` class or an instance.
    - `recipe`: "quick", "paper", "best", a TOML file, or a `Recipe`.
    - `seed`: of weights, functions and points.
    - `out`: a run folder to make; without one nothing is written.
    - `resume`: go on with the run in `out`, if there is one.
    - `overwrite`: replace the run in `out`.
    - `budget`: seconds, or text like "5min", after which to stop.
    - `data`: supervised pairs to mix in.
    - `quiet`: show nothing.
    - `set`: changes of the recipe and of the problem's constants: `{"train.steps": 300, "constants.nu": 0.02}`.
    """
    specification = RunConfig.make(problem, recipe, seed, set)
    return run(
        specification, out=out, resume=resume, overwrite=overwrite, budget=budget, data=data, quiet=quiet
    ).operator


@dataclass(frozen=True)
class Outcome:
    """An operator, and how it was trained; `trained` is None if the run had been complete before."""

    operator: Operator
    trained: TrainingResult | None


def run(
    specification: RunConfig,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    budget: float | str | None = None,
    data: Data | None = None,
    quiet: bool = False,
) -> Outcome:
    """What `train` does, for a specification."""
    if resume and overwrite:
        raise ValueError("a run is either resumed or overwritten, not both")
    if (resume or overwrite) and out is None:
        raise ValueError(f"{'resume' if resume else 'overwrite'} needs the folder of a run: give out")
    seconds = parse_duration(budget) if isinstance(budget, str) else budget
    folder = None if out is None else RunFolder(out)
    say = _silent if quiet else _say
    began = time.perf_counter()
    if folder is not None:
        folder.check_free(resume=resume, overwrite=overwrite)
    specification = _resolved(specification, say)
    if folder is not None:
        if resume and folder.config.exists():
            _check_same(folder, specification)
        # A run that was killed before its first checkpoint begins anew.
        resume = resume and folder.resumable
    with in_precision_of(specification.recipe):
        if folder is not None and resume and _complete(folder, specification):
            return Outcome(load(folder.path), None)
        stepper = prepare(specification.problem, specification.recipe, specification.seed, data)
        _check_plan(stepper, say)
        spent = time.perf_counter() - began
        if folder is not None and not resume:
            folder.create(specification.to_toml())
        trained = train_model(
            specification.problem,
            specification.recipe,
            seed=specification.seed,
            folder=None if folder is None else folder.path,
            resume=resume,
            budget=seconds,
            validate=_validation(specification.problem, say),
            data=data,
            quiet=quiet,
            stepper=stepper,
            spent=spent,
        )
        if folder is not None:
            folder.save_operator(trained.model)
            head = {key: value for key, value in specification.to_dict().items() if key not in ("model", "train")}
            folder.add_to_report(plain({**head, **training_report(trained)}))
    return Outcome(Operator(trained.model), trained)


def _resolved(specification: RunConfig, say: Callable[[str], None]) -> RunConfig:
    recipe, floor = resolve_auto(specification.problem, specification.recipe)
    if floor is not None:
        ranks = ", ".join(f"{name} {rank}" for name, rank in floor.ranks.items())
        say(f"ranks chosen: {ranks}; by their floor, errors of {floor.error:.2%} and more are to be expected")
    return replace(specification, recipe=recipe)


def _complete(folder: RunFolder, specification: RunConfig) -> bool:
    return folder.operator.exists() and folder.read_report().get("steps", 0) >= specification.recipe.train.steps


def _check_same(folder: RunFolder, specification: RunConfig) -> None:
    differences = specification.differences(read_tables(folder.config))
    if differences:
        raise ValueError(
            f"the run in {folder.path} has {'; '.join(differences)}: resume it as it is (seponet train --resume --out "
            f"{folder.path}), or replace it (overwrite)"
        )


def _check_plan(stepper: TrainStep, say: Callable[[str], None]) -> None:
    """Say what training will take, and stop if it will not fit, before anything is written."""
    config, slab = stepper.config, stepper.slab
    cost = estimate_cost(stepper.model(stepper.start()), config.functions, config.points, slab, stepper)
    least = config.steps * cost.flops / matmul_rate()
    say(f"{cost}; {config.steps} steps take at least {show_duration(max(least, 1))} here, plus compilation")
    available = available_memory()
    if available is not None and cost.bytes > available:
        raise ValueError(
            f"training needs about {cost.bytes / 2**30:.1f} GiB and {available / 2**30:.1f} GiB are free: lower "
            f"train.functions (now {config.functions}), train.points (now {config.points}) or train.slab (now {slab})"
        )


def _validation(problem: Problem, say: Callable[[str], None]) -> Validate | None:
    """The mean relative error over a few functions on a coarse grid, if the problem has a reference."""
    if not problem.reference_resolution or not problem.inputs:
        return None
    say(f"solving {VALIDATION_FUNCTIONS} functions to validate on, or reading them from the cache")
    points = {name: _thin(values) for name, values in problem.grid().items()}
    testset = load_testset(problem, "validation", VALIDATION_FUNCTIONS, points=points)
    return lambda model: float(np.mean(measure(model, testset).relative_l2))


def _thin(points: np.ndarray) -> np.ndarray:
    count = min(len(points), VALIDATION_POINTS)
    return points[np.round(np.linspace(0, len(points) - 1, count)).astype(int)]


def _say(message: str) -> None:
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def _silent(message: str) -> None:
    pass
