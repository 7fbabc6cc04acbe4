"""How a run begins: what was left open is decided, what it takes is told, and its folder is made."""

import logging
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._files import write_text
from .._machine import available_memory, matmul_rate
from .._text import show_duration
from ..distributed.group import ALONE, Group
from ..evaluation.validation import Validation, find_validation
from ..losses.supervised import Data
from ..operator.evaluator import forget_programs
from ..training.abstract_step import AbstractStep
from ..training.agreement import spread
from ..training.cost import estimate_cost
from ..training.loop import Trainer, precision_of, prepare
from ..training.ranks import resolve_auto
from ..training.recipe import Recipe
from ..training.trial import choose_way
from .config import RunConfig, read_tables
from .folder import RunFolder

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """How a training is done: in how many seconds, with which data, shown or not, and by whom."""

    budget: float | None = None
    limit: float | None = None
    data: Data | None = None
    quiet: bool = False
    group: Group | None = None

    @property
    def members(self) -> Group:
        return self.group or ALONE


@dataclass(frozen=True)
class Started:
    """A training that is about to begin: all that was decided for it."""

    config: RunConfig
    floor: float | None
    validation: Validation | None
    trainer: Trainer
    resume: bool


def start(config: RunConfig, folder: RunFolder | None, resume: bool, plan: Plan) -> Started | None:
    """The trainer of a run, whose folder is made; None if the run had been complete before.

    Of several processes the leader alone has a folder, so that it decides what is resumed.
    """
    began = time.perf_counter()
    group = plan.members
    begun = folder.read_config() if folder is not None and resume else None
    config, floor = _agreed(config, group, plan, begun)
    if folder is not None and resume:
        config = _same(folder, config)
    # A run that was killed before its first checkpoint begins anew.
    resume = group.same(lambda: folder is not None and resume and folder.resumable)
    with precision_of(config.recipe):
        if group.same(lambda: folder is not None and resume and _complete(folder)):
            return None
        step = prepare(config.problem, config.recipe, config.seed, plan.data)
        shared = "" if plan.group is None else spread(step, group)
        if shared:
            logger.info("%s", shared)
        _check_plan(step)
        if folder is not None:
            write_text(folder.config, config.to_toml()) if resume else folder.create(config.to_toml())
        validation = find_validation(config.problem, config.recipe.train.tolerance) if group.leader else None
        trainer = Trainer(
            step,
            folder=None if folder is None else folder.path,
            budget=plan.budget,
            validate=validation,
            quiet=plan.quiet,
            began=began,
            config=config.to_toml() if folder is not None else "",
            group=group,
            limit=plan.limit,
        )
    return Started(config, floor, validation, trainer, resume)


def _resolved(config: RunConfig, plan: Plan, begun: str | None) -> tuple[RunConfig, float | None]:
    """The configuration with numbers for what it leaves to the problem, and the error of its discretisation. A run that
    has `begun`, with the text of its configuration, goes on the way that was chosen for it."""
    recipe, resolution = resolve_auto(config.problem, config.recipe, progress=logger.info)
    if resolution is not None:
        # What the discretisations that were tried have compiled serves no other: after a dozen problems a process has
        # no room for more programs.
        forget_programs()
        logger.log(logging.INFO if resolution.reached else logging.WARNING, "%s", resolution.describe())
    floor = None if resolution is None else float(np.mean(resolution.errors))
    if begun is not None and recipe.train.targets.trial:
        chosen = read_tables(begun, "the run's configuration")["train"]["targets"]
        recipe = recipe.changed({f"train.targets.{key}": chosen[key] for key in ("pool", "trial")})
    if plan.data is None:
        seconds = recipe.train.seconds if plan.budget is None else plan.budget
        with precision_of(recipe):
            recipe = choose_way(config.problem, recipe, config.seed, seconds)
    return replace(config, recipe=recipe), floor


def _agreed(config: RunConfig, group: Group, plan: Plan, begun: str | None) -> tuple[RunConfig, float | None]:
    """`_resolved` by the leader, for all: numbers that were chosen for a tolerance are the same everywhere."""
    if group.count == 1:
        return _resolved(config, plan, begun)
    texts = group.gather(config.to_toml())
    differences = config.differences(texts[0], "the configuration of process 0")
    if differences:
        raise ValueError(
            f"process {group.index} was asked for something else than process 0, which has {'; '.join(differences)}: "
            "give all processes the same command and files"
        )
    found: list[tuple[RunConfig, float | None]] = []

    def resolve() -> list[Any]:
        found.append(_resolved(config, plan, begun))
        return [found[0][0].recipe.to_dict(), found[0][1]]

    tables, floor = group.same(resolve)
    return found[0] if found else (replace(config, recipe=Recipe.from_dict(tables, "the leader's recipe")), floor)


def _complete(folder: RunFolder) -> bool:
    report = folder.read_report()
    return folder.operator.exists() and "verdict" in report and not report.get("interrupted", True)


def _same(folder: RunFolder, config: RunConfig) -> RunConfig:
    """A run goes on with its own configuration only: its checkpoints fit no other. It may have had a budget before."""
    text = folder.read_config()
    if text is None:
        return config
    timed = replace(config, recipe=config.recipe.timed())
    if not timed.differences(text, str(folder.config)):
        return timed
    differences = config.differences(text, str(folder.config))
    if differences:
        raise ValueError(
            f"the run in {folder.path} has {'; '.join(differences)}: resume it as it is (seponet train --resume --out "
            f"{folder.path}), or replace it (overwrite)"
        )
    return config


def _check_plan(step: AbstractStep) -> None:
    """Say what training will take, and stop if it will not fit, before anything is written."""
    config, slab, points = step.config, step.slab, step.config.sampling.points
    cost = estimate_cost(step.model(step.start()), config.functions, points, slab)
    if config.steps == "auto":
        logger.info("%s; as many steps as there is time for", cost)
    else:
        least = show_duration(max(config.steps * cost.flops / matmul_rate(), 1))
        logger.info("%s; %d steps take at least %s here, plus compilation", cost, config.steps, least)
    size, available = step.memory(), available_memory()
    logger.info("a step is compiled and needs %.0f MiB besides the parameters and the optimizer's state", size / 2**20)
    if available is not None and size > available:
        raise ValueError(
            f"training needs about {size / 2**30:.1f} GiB and {available / 2**30:.1f} GiB are free: lower "
            f"train.functions (now {config.functions}), train.sampling.points (now {points}) or train.slab (now {slab})"
        )
