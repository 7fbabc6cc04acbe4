"""`seponet train`."""

import logging
import signal
from argparse import Namespace
from pathlib import Path
from typing import Any

from .._text import show_duration
from ..distributed.group import ALONE, Group
from ..distributed.launch import seconds_left
from ..distributed.session import joined
from ..operator.trust import Trust
from ..runs.config import RunConfig, config_text
from ..runs.folder import RunFolder
from ..runs.train import Outcome, follow, run
from . import sentence_of
from .evaluate import show_report
from .output import NOT_REACHED, write_line

logger = logging.getLogger(__name__)


def train_command(arguments: Namespace) -> int:
    # A scheduler's polite end is like Ctrl-C: the run is saved and can be resumed.
    before = {which: signal.getsignal(which) for which in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with joined(arguments.star, lambda error: f"seponet train: {sentence_of(error)}") as group:
            if group.count > 1:
                for which in before:
                    signal.signal(which, lambda *_: group.interrupt())
            config, out = configure(arguments, group)
            if not group.leader:
                follow(config, group, resume=arguments.resume)
                return 0
            return _show(arguments, out, _run(arguments, config, out, group))
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def _run(arguments: Namespace, config: RunConfig, out: Path, group: Group) -> Outcome:
    limit = seconds_left()
    if limit is not None:
        logger.info("the allocation ends: at most %s of training", show_duration(limit))
    try:
        return run(
            config,
            out=out,
            resume=arguments.resume,
            overwrite=arguments.overwrite,
            budget=arguments.budget,
            functions=arguments.functions,
            calibration=arguments.calibration,
            figures=not arguments.no_figures,
            quiet=arguments.quiet,
            group=group,
            limit=limit,
        )
    except KeyboardInterrupt:
        raise ValueError(
            "stopped by a signal; what was written is whole, so give the same command again, with --resume if the run "
            "folder is there"
        ) from None


def _show(arguments: Namespace, out: Path, outcome: Outcome) -> int:
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


def configure(arguments: Namespace, group: Group = ALONE) -> tuple[RunConfig, Path]:
    """What is to be trained, and where it goes."""
    changes = dict(arguments.set) | ({} if arguments.tolerance is None else {"train.tolerance": arguments.tolerance})
    if arguments.problem:
        recipe = arguments.recipe or "quick"
        config = RunConfig.make(
            arguments.problem, recipe, arguments.seed or 0, changes, timed=arguments.budget is not None
        )
    else:
        config = _read(arguments, changes, Trust(arguments.trust), group)
    default = Path("runs") / f"{config.name}-{Path(config.label).stem}"
    return config, Path(arguments.out or default)


def _read(arguments: Namespace, changes: dict[str, Any], trust: Trust, group: Group) -> RunConfig:
    """The configuration in a file, or that of the run which is to go on; of several processes, the leader reads it."""
    path, text = group.same(lambda: _text(arguments))
    return RunConfig.parse(text, path, arguments.seed, changes, trust)


def _text(arguments: Namespace) -> list[str]:
    if arguments.config:
        return [arguments.config, config_text(arguments.config)]
    folder = RunFolder(arguments.out)
    text = folder.read_config()
    if text is None:
        raise ValueError(f"there is no configuration {folder.config}; a run folder has one, called config.toml")
    return [str(folder.config), text]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt("the process was asked to end")
