"""The command line. What is imported here is light: a command loads JAX when it runs, `--help` never does."""

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from .parser import parse


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 is success, 1 failure (with one sentence on stderr), 2 a wrong call."""
    arguments = parse(argv)
    try:
        return _command(arguments)
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
        sys.stderr.write(f"seponet {arguments.command}: {_sentence(error)}\n")
        return 1


def _command(arguments: argparse.Namespace) -> int:
    module: Any = importlib.import_module(f"{__name__}.{arguments.module}")
    return getattr(module, f"{arguments.command}_command")(arguments)


def _sentence(error: Exception) -> str:
    from ..training.loop import Diverged

    lines = str(error).splitlines() or [""]
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, ValueError | OSError | Diverged):
        return lines[0] or type(error).__name__
    return f"{type(error).__name__}: {lines[0]} (this is unexpected; --debug shows where it comes from)"
