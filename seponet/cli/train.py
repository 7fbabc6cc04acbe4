"""`seponet train`."""

import signal
from argparse import Namespace
from pathlib import Path

from .._precision import in_precision_of
from .._text import plain
from ..evaluation.report import evaluation_report
from ..runs.config import RunConfig
from ..runs.folder import RunFolder
from ..runs.train import Outcome, run
from .evaluate import show_report
from .output import progress_bar, warn, write_line


def train_command(arguments: Namespace) -> int:
    specification, out = _specify(arguments)
    # A scheduler's polite end is like Ctrl-C: the run is saved and can be resumed.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        outcome = run(
            specification,
            out=out,
            resume=arguments.resume,
            overwrite=arguments.overwrite,
            budget=arguments.budget,
            quiet=arguments.quiet,
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    if _stopped(outcome, arguments.budget):
        steps = specification.recipe.train.steps
        raise ValueError(f"stopped by a signal before step {steps}; go on with: seponet train --resume --out {out}")
    if outcome.trained is not None and outcome.trained.interrupted:
        warn(
            f"the budget ended after step {outcome.trained.steps} of {specification.recipe.train.steps}; go on with: "
            f"seponet train --resume --out {out}"
        )
    folder = RunFolder(out)
    if arguments.functions > 0:
        with (
            in_precision_of(outcome.operator.model),
            progress_bar("solving the test functions", arguments.quiet) as progress,
        ):
            found = evaluation_report(outcome.operator, arguments.functions, "converged", progress)
        show_report(outcome.operator, folder.add_to_report(plain(found)))
    if not arguments.no_figures:
        _draw(folder)
    write_line(f"The run is in {out}")
    return 0


def _specify(arguments: Namespace) -> tuple[RunConfig, Path]:
    changes = dict(arguments.set)
    if arguments.problem:
        recipe = arguments.recipe or "quick"
        specification = RunConfig.make(arguments.problem, recipe, arguments.seed or 0, changes)
    else:
        source = arguments.config or RunFolder(arguments.out).config
        specification = RunConfig.read(source, arguments.seed, changes)
    default = Path("runs") / f"{specification.name}-{Path(specification.label).stem}"
    return specification, Path(arguments.out or default)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt("the process was asked to end")


def _stopped(outcome: Outcome, budget: float | None) -> bool:
    trained = outcome.trained
    return trained is not None and trained.interrupted and (budget is None or trained.seconds < budget)


def _draw(folder: RunFolder) -> None:
    """Pictures come last: whatever goes wrong with them, the run is complete."""
    try:
        from ..plots import plot_run

        pictures = plot_run(folder.path)
    except Exception as error:
        warn(f"the run is complete, but its pictures failed: {type(error).__name__}: {error}")
        return
    for path in pictures:
        write_line(f"{path}")
