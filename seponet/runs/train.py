"""Training from end to end: from a name to an operator, with a run folder if one is wanted."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .._numbers import real, whole
from .._text import parse_duration, plain
from ..distributed.group import Group
from ..equations.problem import Problem
from ..evaluation.report import training_report
from ..losses.supervised import Data
from ..operator.calibrate import FUNCTIONS
from ..operator.evaluator import forget_programs
from ..operator.operator import Operator, load
from ..operator.saving import describe
from ..training.loop import precision_of
from ..training.progress import messages_shown, someone_listens
from ..training.recipe import Recipe
from ..training.result import TrainingResult
from .config import RunConfig
from .finish import calibrated, drawn, evaluated
from .folder import RunFolder
from .problems import remember_code
from .start import Plan, start
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
    plan = Plan(seconds, limit, data, quiet, group)
    with _messages(quiet), _programs_forgotten(config):
        _check_saveable(config, out)
        remember_code(config.problem)
        if out is None:
            operator, trained, verdict = _train(config, None, False, plan)
            # Of an operator without a step there is nothing to calibrate.
            if trained is not None and trained.steps:
                operator, _ = calibrated(operator, calibration)
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
                operator, told = calibrated(operator, calibration)
                if operator.calibration is not None:
                    folder.save_operator(operator.model, operator.calibration)
                folder.add_to_report({"calibration": plain(told)})
            report = evaluated(folder, operator, functions, quiet) if functions > 0 else folder.read_report()
            return Outcome(operator, trained, verdict, report, drawn(folder, operator) if figures else ())


def follow(config: RunConfig, group: Group, *, resume: bool = False) -> None:
    """What every process but the leader does while that one does `run`: it computes its share, and writes nothing."""
    remember_code(config.problem)
    started = start(config, None, resume, Plan(quiet=True, group=group))
    if started is not None:
        with precision_of(started.config.recipe):
            started.trainer.train(resume=started.resume)
    group.disband()


def _train(
    config: RunConfig, folder: RunFolder | None, resume: bool, plan: Plan
) -> tuple[Operator, TrainingResult | None, Verdict]:
    """The operator, written to the folder with the report of its training, and what that came to."""
    started = start(config, folder, resume, plan)
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
