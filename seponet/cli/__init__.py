"""The command line. What is imported here is light: a command loads JAX when it runs, `--help` never does."""

import argparse
import importlib
import io
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .parser import parse

if TYPE_CHECKING:
    from ..distributed.star import Star

logger = logging.getLogger(__name__)

COMMANDS = {
    "bench": ("bench", "bench_command"),
    "explore": ("export", "explore_command"),
    "export": ("export", "export_command"),
    "evaluate": ("evaluate", "evaluate_command"),
    "info": ("show", "info_command"),
    "list": ("show", "list_command"),
    "plot": ("show", "plot_command"),
    "predict": ("predict", "predict_command"),
    "reference": ("reference", "reference_command"),
    "solve": ("solve", "solve_command"),
    "sweep": ("sweep", "sweep_command"),
    "train": ("train", "train_command"),
}
"""The module in this folder and the function that run a command; loaded when it runs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 is success, 1 failure (with one sentence on stderr), 2 a wrong call, 3 an answer that is less
    accurate than was asked for."""
    # Terminals that know ASCII only get a question mark for what they can't show.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    arguments = parse(argv)
    try:
        with _stopped_early(arguments.command):
            # Before anything that takes time: a process that is lost while it loads JAX is missed by the others.
            arguments.star = _meet(arguments)
            module = _load(arguments.command)
        return _command(arguments, module)
    except BrokenPipeError:
        # The reader of our output has gone; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 1
    except Exception as error:
        if arguments.debug:
            traceback.print_exc()
        sys.stderr.write(f"seponet {arguments.command}: {sentence_of(error)}\n")
        return 1


@contextmanager
def _stopped_early(command: str) -> Iterator[None]:
    """A signal while libraries are loaded ends the process at once, and says so: nothing has begun."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(which: int, _: object) -> None:
        os.write(2, f"seponet {command}: stopped by a signal before it began; nothing was changed\n".encode())
        os._exit(128 + which)

    before = {which: signal.signal(which, stop) for which in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def _meet(arguments: argparse.Namespace) -> "Star | None":
    """The other processes of this command, by its flags or else by what started it; None if there are none."""
    if getattr(arguments, "distributed", None) is None:
        return None
    from ..distributed.launch import detect

    launch = detect(
        arguments.distributed,
        processes=arguments.processes,
        process_id=arguments.process_id,
        coordinator=arguments.coordinator,
    )
    if launch is None:
        return None
    from ..distributed.star import ARRIVAL, Star

    return Star(launch, arrival=ARRIVAL if arguments.wait is None else arguments.wait)


def _load(name: str) -> Callable[[argparse.Namespace], int]:
    module, function = COMMANDS[name]
    return getattr(importlib.import_module(f".{module}", __name__), function)


def _command(arguments: argparse.Namespace, command: Callable[[argparse.Namespace], int]) -> int:
    if arguments.command == "bench":
        return command(arguments)
    from ..training.progress import messages_shown

    quiet = getattr(arguments, "quiet", False)
    with messages_shown(logging.WARNING if quiet else logging.INFO):
        if getattr(arguments, "distributed", None) == "auto" and not arguments.star and arguments.processes is None:
            from ..distributed.launch import unused_tasks

            if sentence := unused_tasks():
                logger.warning("%s", sentence)
        return command(arguments)


def sentence_of(error: BaseException) -> str:
    """What a person is told about an error."""
    # Of a module that was never loaded there is no error: mistakes in a call are answered before JAX is loaded.
    diagnosis = sys.modules.get("seponet.training.diagnosis")
    expected = (ValueError, OSError, ImportError, *([] if diagnosis is None else [diagnosis.Diverged]))
    lines = str(error).splitlines() or [""]
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, expected):
        return lines[0] or type(error).__name__
    return f"{type(error).__name__}: {lines[0]} (this is unexpected; --debug shows where it comes from)"
