"""Training from end to end: from a name to an operator, with a run folder if one is wanted."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._files import write_text
from .._machine import available_memory, matmul_rate
from .._numbers import real, whole
from .._precision import in_precision_of
from .._text import parse_duration, plain, show_duration
from ..distributed.group import ALONE, Group
from ..equations.problem import Problem
from ..evaluation.break_even import break_even
from ..evaluation.report import evaluation_report, training_report
from ..evaluation.validation import Validation, find_validation
from ..losses.supervised import Data
from ..operator.calibrate import FUNCTIONS, NotCalibrated
from ..operator.error_labels import describe_calibration
from ..operator.evaluator import forget_programs
from ..operator.operator import Operator, load
from ..operator.saving import describe
from ..training.abstract_step import AbstractStep
from ..training.agreement import spread
from ..training.cost import estimate_cost
from ..training.loop import Trainer, precision_of, prepare
from ..training.progress import messages_shown, progress_bar, someone_listens
from ..training.ranks import resolve_auto
from ..training.recipe import Recipe
from ..training.result import TrainingResult
from .config import RunConfig
from .figures import plot_run
from .folder import RunFolder
from .problems import remember_code
from .verdict import NotTrained, Verdict, judge

logger = logging.getLogger(__name__)

MOST_FUNCTIONS = 10**6
"""The most functions of a test set or a calibration."""


def train(
    problem: str | type[Problem] | Problem,
    recipe: str | Path | Recipe = "quick",
    *,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    tolerance: float | None = None,
    budget: float | str | None = None,
    data: Data | None = None,
    functions: int = 100,
    calibration: int = FUNCTIONS,
    figures: bool = True,
    quiet: bool = False,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the name of the option on the command line
) -> Operator:
    """Train an operator from the equation alone.

    ```python
    operator = seponet.train("burgers", set={"train.steps": 1000})
    operator = seponet.train(MyPDE(), tolerance=1e-3, budget="5min")
    ```

    A training without a step, or one whose length was left to the library and which is no better than none, is an
    error: `NotTrained`, which has the operator.

    **Arguments:**

    - `problem`: a registered name, `path/to/file.py:ClassName`, a `Problem` class or an instance.
    - `recipe`: "quick" (about a minute), "standard" (five), "best" (as long as it helps), "paper" for its problems, a
        TOML file, or a `Recipe`.
    - `seed`: of parameters, functions and points.
    - `out`: a run folder to make, the same that `seponet train` makes; without one nothing is written.
    - `resume`: go on with the run in `out`, if there is one.
    - `overwrite`: replace the run in `out`.
    - `tolerance`: the relative error that is asked for: the discretisation is chosen for it, and the run ends where the
        validation error is below; what was reached and what limits it is said.
    - `budget`: seconds, or text like "5min", for discretisation, compilation and training together: as many steps as
        fit are taken, and the learning rate ends with them. With a number of steps in `set`, and for schedules that
        have no end, the run just stops then. Calibration, evaluation and pictures follow.
    - `data`: supervised pairs to mix in.
    - `functions`: how many test functions the report in `out` is of; 0 leaves the evaluation out.
    - `calibration`: how many fresh inputs are solved at the end to calibrate `Operator.error`; 0 leaves that out.
    - `figures`: whether pictures are drawn into `out`.
    - `quiet`: show nothing.
    - `set`: changes of the recipe and of the problem's constants: `{"train.steps": 300, "constants.nu": 0.02}`.

    **Returns:** the operator; `Operator.save` writes it, and `load(out)` reads it again.
    """
    changes = dict(set or {}) | ({} if tolerance is None else {"train.tolerance": tolerance})
    config = RunConfig.make(problem, recipe, seed, changes, timed=budget is not None)
    outcome = run(
        config,
        out=out,
        resume=resume,
        overwrite=overwrite,
        budget=budget,
        data=data,
        functions=functions,
        calibration=calibration,
        figures=figures,
        quiet=quiet,
    )
    # Whoever names a number of steps may want just these; the warning has been given.
    steps = 0 if outcome.trained is None else outcome.trained.steps
    if not outcome.verdict.trained and (not steps or config.recipe.train.steps == "auto"):
        raise NotTrained(outcome.verdict.reason, outcome.operator)
    return outcome.operator


@dataclass(frozen=True)
class Outcome:
    """An operator, and how it was trained.

    - `operator`: the trained operator.
    - `trained`: how the training went; None if the run had been complete before.
    - `verdict`: what it came to.
    - `report`: the report of the run folder.
    - `figures`: the pictures that were drawn.
    """

    operator: Operator
    trained: TrainingResult | None
    verdict: Verdict
    report: Mapping[str, Any] = field(default_factory=dict)
    figures: tuple[Path, ...] = ()


def run(
    config: RunConfig,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    budget: float | str | None = None,
    data: Data | None = None,
    functions: int = 100,
    calibration: int = FUNCTIONS,
    figures: bool = True,
    quiet: bool = False,
    group: Group | None = None,
    limit: float | None = None,
) -> Outcome:
    """What `train` does, for a configuration.

    **Arguments:**

    - `group`: the processes that train together, with all their devices, of which this is the leader: the others do
        `follow`. None for one process with one device, or with the mesh that is set.
    - `limit`: seconds after which the machine is taken away.
    """
    if resume and overwrite:
        raise ValueError("a run is either resumed or overwritten, not both")
    if (resume or overwrite) and out is None:
        raise ValueError(f"{'resume' if resume else 'overwrite'} needs the folder of a run: give out")
    seconds = parse_duration(budget) if isinstance(budget, str) else budget
    if seconds is not None:
        real("budget, in seconds or text like 5min,", seconds, 0, float("inf"))
    whole("seed", config.seed, -(2**63), 2**63 - 1)
    whole("functions", functions, 0, MOST_FUNCTIONS)
    whole("calibration", calibration, 0, MOST_FUNCTIONS)
    plan = _Plan(seconds, limit, data, quiet, group)
    with _messages(quiet), _programs_forgotten(config):
        _check_saveable(config, out)
        remember_code(config.problem)
        if out is None:
            operator, trained, verdict = _train(config, None, False, plan)
            # Of an operator without a step there is nothing to calibrate.
            if trained is not None and trained.steps:
                operator, _ = _calibrated(operator, calibration)
            return Outcome(operator, trained, verdict)
        folder = RunFolder(out)
        folder.check_free(resume=resume, overwrite=overwrite)
        with folder.lock():
            folder.remove_leftovers()
            operator, trained, verdict = _train(config, folder, resume, plan)
            operator.folder = folder.path
            if trained is not None and (trained.end == "interrupt" or not trained.steps):
                # Whoever interrupts a run wants it to end; and of one without a step there is nothing to show.
                return Outcome(operator, trained, verdict, folder.read_report())
            if operator.calibration is None and calibration > 0:
                operator, told = _calibrated(operator, calibration)
                if operator.calibration is not None:
                    folder.save_operator(operator.model, operator.calibration)
                folder.add_to_report({"calibration": plain(told)})
            report = _evaluate(folder, operator, functions, quiet) if functions > 0 else folder.read_report()
            return Outcome(operator, trained, verdict, report, _draw(folder, operator) if figures else ())


def follow(config: RunConfig, group: Group, *, resume: bool = False) -> None:
    """What every process but the leader does while that one does `run`: it computes its share, and writes nothing."""
    remember_code(config.problem)
    started = _start(config, None, resume, _Plan(quiet=True, group=group))
    if started is not None:
        with precision_of(started.config.recipe):
            started.trainer.train(resume=started.resume)
    group.disband()


@dataclass(frozen=True)
class _Plan:
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
class _Started:
    """A training that is about to begin: all that was decided for it."""

    config: RunConfig
    floor: float | None
    validation: Validation | None
    trainer: Trainer
    resume: bool


def _train(
    config: RunConfig, folder: RunFolder | None, resume: bool, plan: _Plan
) -> tuple[Operator, TrainingResult | None, Verdict]:
    """The operator, written to the folder with the report of its training, and what that came to."""
    started = _start(config, folder, resume, plan)
    if started is None:
        assert folder is not None
        plan.members.disband()
        with precision_of(config.recipe):
            return load(folder.path, problem=type(config.problem)), None, Verdict(**folder.read_report()["verdict"])
    config = started.config
    with precision_of(config.recipe):
        trained = started.trainer.train(resume=started.resume)
        # What follows is the leader's own.
        plan.members.disband()
        lift = None if started.validation is None else started.validation.of_lift(trained.model)
        verdict = judge(trained, config.recipe.train, lift=lift, floor=started.floor)
        if not plan.quiet or someone_listens():
            logger.log(logging.INFO if verdict.success else logging.WARNING, "%s", verdict.reason)
        if folder is not None:
            folder.save_operator(trained.model)
            head = {key: value for key, value in config.to_dict().items() if key not in ("model", "train")}
            folder.add_to_report(plain({**head, **training_report(trained), "verdict": asdict(verdict)}))
    return Operator(trained.model), trained, verdict


def _start(config: RunConfig, folder: RunFolder | None, resume: bool, plan: _Plan) -> _Started | None:
    """The trainer of a run, whose folder is made; None if the run had been complete before.

    Of several processes the leader alone has a folder, so that it decides what is resumed.
    """
    began = time.perf_counter()
    group = plan.members
    config, floor = _agreed(config, group)
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
    return _Started(config, floor, validation, trainer, resume)


def _calibrated(operator: Operator, functions: int) -> tuple[Operator, dict[str, Any]]:
    """The operator with calibrated error estimates, and what its report says of them; or as it is, with the reason.
    Whatever goes wrong with them, the operator is trained."""
    if functions <= 0:
        return operator, {}
    began = time.perf_counter()
    try:
        calibrated = operator.calibrate(functions)
    except NotCalibrated as error:
        logger.info("error estimates can't be calibrated: %s", error)
        return operator, {"reason": str(error)}
    except Exception as error:
        logger.warning(
            "the operator is trained, but its calibration failed: %s: %s (try operator.calibrate())",
            type(error).__name__,
            error,
        )
        return operator, {"reason": f"{type(error).__name__}: {error}"}
    assert calibrated.calibration is not None
    logger.info("%s", describe_calibration(calibrated.calibration))
    return calibrated, {**calibrated.calibration.report(), "seconds": time.perf_counter() - began}


def _messages(quiet: bool) -> AbstractContextManager[None]:
    """Messages are shown unless that is not wanted, or a handler of the program's own does it."""
    return nullcontext() if quiet or someone_listens() else messages_shown()


@contextmanager
def _programs_forgotten(config: RunConfig) -> Iterator[None]:
    """Forgets at the end what a run has compiled, if it chose a discretisation: hundreds of programs, which serve no
    other problem and that JAX would keep."""
    try:
        yield
    finally:
        if config.recipe.model.rank == "auto":
            forget_programs()


def _resolved(config: RunConfig) -> tuple[RunConfig, float | None]:
    """The configuration with numbers for what it leaves to the problem, and the error of its discretisation."""
    recipe, resolution = resolve_auto(config.problem, config.recipe, progress=logger.info)
    if resolution is not None:
        # What the discretisations that were tried have compiled serves no other: after a dozen problems a process has
        # no room for more programs.
        forget_programs()
        logger.log(logging.INFO if resolution.reached else logging.WARNING, "%s", resolution.describe())
    floor = None if resolution is None else float(np.mean(resolution.errors))
    return replace(config, recipe=recipe), floor


def _agreed(config: RunConfig, group: Group) -> tuple[RunConfig, float | None]:
    """`_resolved` by the leader, for all: numbers that were chosen for a tolerance are the same everywhere."""
    if group.count == 1:
        return _resolved(config)
    texts = group.gather(config.to_toml())
    differences = config.differences(texts[0], "the configuration of process 0")
    if differences:
        raise ValueError(
            f"process {group.index} was asked for something else than process 0, which has {'; '.join(differences)}: "
            "give all processes the same command and files"
        )
    found: list[tuple[RunConfig, float | None]] = []

    def resolve() -> list[Any]:
        found.append(_resolved(config))
        return [found[0][0].recipe.to_dict(), found[0][1]]

    tables, floor = group.same(resolve)
    return found[0] if found else (replace(config, recipe=Recipe.from_dict(tables, "the leader's recipe")), floor)


def _check_saveable(config: RunConfig, out: str | Path | None) -> None:
    """Say before anything is trained that its result can't be saved: an error if it is to be, a warning otherwise."""
    try:
        describe(config.problem, [], type(config.problem).__name__)
        if out is not None:
            config.to_toml()
    except ValueError as error:
        if out is not None:
            raise ValueError(f"the run can't be saved in {out}: {error}; or train without out") from None
        logger.warning("this operator can be used, but not saved: %s", error)


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


def _evaluate(folder: RunFolder, operator: Operator, functions: int, quiet: bool) -> Mapping[str, Any]:
    """The report with the errors over unseen functions."""
    with (
        in_precision_of(operator.model),
        progress_bar("solving the test functions", quiet) as progress,
    ):
        errors = evaluation_report(operator, functions, "converged", progress)
    return folder.add_to_report(plain({**errors, **break_even({**folder.read_report(), **errors})}))


def _draw(folder: RunFolder, operator: Operator) -> tuple[Path, ...]:
    """Pictures come last: whatever goes wrong with them, the run is complete."""
    try:
        return tuple(plot_run(folder, operator))
    except Exception as error:
        logger.warning("the run is complete, but its pictures failed: %s: %s", type(error).__name__, error)
        return ()
