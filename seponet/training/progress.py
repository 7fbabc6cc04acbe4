"""What a person sees of a run: messages, and a bar in a terminal or plain lines elsewhere.

Everything that the library has to say goes through `logging`, to loggers below "seponet". A program that has set up
logging gets the messages its own way; otherwise `messages_shown` puts them on standard error while a run lasts.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .._text import show_duration

CONSOLE = Console(stderr=True)
"""Of messages and bars alike, so that a message is printed above a bar and not into it."""


class ConsoleHandler(logging.Handler):
    """Prints messages on the console, as sentences: without time, level or origin."""

    def emit(self, record: logging.LogRecord) -> None:
        CONSOLE.print(self.format(record), highlight=False, markup=False, soft_wrap=True)


@contextmanager
def messages_shown(level: int = logging.INFO) -> Iterator[None]:
    """Show the library's messages from `level` on while the block runs; logging is left as it was."""
    logger, handler = logging.getLogger("seponet"), ConsoleHandler(level)
    before = logger.level
    logger.addHandler(handler)
    # Only our own logger, and only for the block: by default messages below WARNING are dropped before any handler.
    logger.setLevel(min(level, logger.getEffectiveLevel()))
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


def someone_listens() -> bool:
    """Whether a program, or the command, has a handler for our messages."""
    return logging.getLogger("seponet").hasHandlers()


@contextmanager
def progress_bar(what: str, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A callback for (done, total), shown as a bar if standard error is a terminal; otherwise None."""
    if quiet or not CONSOLE.is_terminal:
        yield None
        return
    with _make_bar() as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class Reporter:
    """Shows steps, loss terms, validation error, speed and the time left.

    **Arguments:**

    - `steps`: the length of the run; None as long as it is not known.
    - `start`: steps done before.
    - `quiet`: show nothing.
    - `every`: seconds between two plain lines.
    """

    def __init__(self, steps: int | None, start: int = 0, quiet: bool = False, every: float = 10.0) -> None:
        self.steps, self.start, self.quiet, self.every = steps, start, quiet, every
        self.last = time.perf_counter()
        self.compiled: float | None = None
        self.bar: Progress | None = None
        if not quiet and CONSOLE.is_terminal:
            self.bar = _make_bar()
            self.task = self.bar.add_task("compiling", total=steps, completed=start)

    def __enter__(self) -> "Reporter":
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def update(
        self, step: int, loss: float, terms: Mapping[str, float], error: float | None, done: bool = False
    ) -> None:
        """Show the state after `step`."""
        if self.quiet:
            return
        parts = [f"loss {loss:.2e}"]
        if len(terms) > 1:
            parts += [f"{name} {value:.1e}" for name, value in terms.items()]
        if error is not None:
            parts.append(f"validation {100 * error:.3g}%")
        now = time.perf_counter()
        if self.compiled is None:
            # The first block compiles: its pace says nothing about the others.
            self.start, self.compiled = step, now
        speed = (step - self.start) / max(now - self.compiled, 1e-9)
        if self.bar is not None:
            self.bar.update(
                self.task, completed=step, total=self.steps, description="  ".join([*parts, f"{speed:.0f} steps/s"])
            )
        elif done or now - self.last >= self.every:
            self.last = now
            if speed > 0:
                parts.append(f"{speed:.1f} steps/s")
            if speed > 0 and self.steps is not None:
                parts.append(f"{show_duration(max(self.steps - step, 0) / speed)} left")
            head = f"step {step}" if self.steps is None else f"step {step}/{self.steps}"
            CONSOLE.print(f"{head}  {'  '.join(parts)}", highlight=False, markup=False, soft_wrap=True)


def _make_bar() -> Progress:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(TextColumn("{task.description}"), *columns, console=CONSOLE)
