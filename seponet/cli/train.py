"""`seponet train`."""

import logging
import signal
from argparse import Namespace
from pathlib import Path

from ..operator.trust import Trust
from ..runs.config import RunConfig
from ..runs.folder import RunFolder
from ..runs.train import run
from .evaluate import show_report
from .output import write_line

logger = logging.getLogger(__name__)


def train_command(arguments: Namespace) -> int:
    config, out = _configure(arguments)
    # A scheduler's polite end is like Ctrl-C: the run is saved and can be resumed.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        outcome = run(
            config,
            out=out,
            resume=arguments.resume,
            overwrite=arguments.overwrite,
            budget=arguments.budget,
            functions=arguments.functions,
            figures=not arguments.no_figures,
            quiet=arguments.quiet,
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    trained, steps = outcome.trained, config.recipe.train.steps
    go_on = f"go on with: seponet train --resume --out {out}"
    if trained is not None and trained.end == "interrupt":
        raise ValueError(f"stopped by a signal before step {steps}; {go_on}")
    if trained is not None and trained.end == "budget":
        logger.warning("the budget ended after step %d of %d; %s", trained.steps, steps, go_on)
    if arguments.functions > 0:
        show_report(outcome.operator, outcome.report)
    for path in outcome.figures:
        write_line(f"{path}")
    write_line(f"The run is in {out}")
    return 0


def _configure(arguments: Namespace) -> tuple[RunConfig, Path]:
    changes = dict(arguments.set)
    if arguments.problem:
        recipe = arguments.recipe or "quick"
        config = RunConfig.make(arguments.problem, recipe, arguments.seed or 0, changes)
    else:
        source = arguments.config or RunFolder(arguments.out).config
        config = RunConfig.read(source, arguments.seed, changes, Trust(arguments.trust))
    default = Path("runs") / f"{config.name}-{Path(config.label).stem}"
    return config, Path(arguments.out or default)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt("the process was asked to end")
