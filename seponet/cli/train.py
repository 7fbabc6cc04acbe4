"""`seponet train`."""

import logging
import signal
from argparse import Namespace
from pathlib import Path
from typing import Any

from ..operator.trust import Trust
from ..runs.config import RunConfig
from ..runs.folder import RunFolder
from ..runs.train import run
from .evaluate import show_report
from .output import NOT_REACHED, write_line

logger = logging.getLogger(__name__)


def train_command(arguments: Namespace) -> int:
    # A scheduler's polite end is like Ctrl-C: the run is saved and can be resumed.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        config, out = _configure(arguments)
        outcome = run(
            config,
            out=out,
            resume=arguments.resume,
            overwrite=arguments.overwrite,
            budget=arguments.budget,
            functions=arguments.functions,
            calibration=arguments.calibration,
            figures=not arguments.no_figures,
            quiet=arguments.quiet,
        )
    except KeyboardInterrupt:
        raise ValueError(
            "stopped by a signal; what was written is whole, so give the same command again, with --resume if the run "
            "folder is there"
        ) from None
    finally:
        signal.signal(signal.SIGTERM, before)
    trained, verdict = outcome.trained, outcome.verdict
    go_on = f"go on with: seponet train --resume --out {out}"
    if trained is not None and trained.end == "interrupt":
        raise ValueError(f"stopped by a signal after step {trained.steps}; {go_on}")
    if trained is not None and trained.end == "budget":
        logger.warning("the budget ended after step %d, before the last; %s", trained.steps, go_on)
    if trained is not None and not trained.steps:
        write_line(f"The run is in {out}")
        return NOT_REACHED
    if arguments.functions > 0:
        show_report(outcome.operator, outcome.report)
    for path in outcome.figures:
        write_line(f"{path}")
    write_line(f"The run is in {out}")
    return 0 if verdict.success else NOT_REACHED


def _configure(arguments: Namespace) -> tuple[RunConfig, Path]:
    changes = dict(arguments.set) | ({} if arguments.tolerance is None else {"train.tolerance": arguments.tolerance})
    if arguments.problem:
        recipe = arguments.recipe or "quick"
        config = RunConfig.make(
            arguments.problem, recipe, arguments.seed or 0, changes, timed=arguments.budget is not None
        )
    else:
        config = _read(arguments, changes, Trust(arguments.trust))
    default = Path("runs") / f"{config.name}-{Path(config.label).stem}"
    return config, Path(arguments.out or default)


def _read(arguments: Namespace, changes: dict[str, Any], trust: Trust) -> RunConfig:
    """The configuration in a file, or that of the run which is to go on."""
    if arguments.config:
        return RunConfig.read(arguments.config, arguments.seed, changes, trust)
    folder = RunFolder(arguments.out)
    text = folder.read_config()
    if text is None:
        raise ValueError(f"there is no configuration {folder.config}; a run folder has one, called config.toml")
    return RunConfig.parse(text, str(folder.config), arguments.seed, changes, trust)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt("the process was asked to end")
