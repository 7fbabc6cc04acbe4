"""What a person sees of a training run: a bar in a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .._text import show_duration


class Reporter:
    """Shows steps, loss terms, validation error, speed and the time left.

    **Arguments:**

    - `steps`: the length of the run.
    - `start`: steps done before.
    - `quiet`: show nothing.
    - `every`: seconds between two plain lines.
    """

    def __init__(self, steps: int, start: int = 0, quiet: bool = False, every: float = 10.0) -> None:
        self.steps, self.start, self.quiet, self.every = steps, start, quiet, every
        self.console = Console(stderr=True)
        self.last = time.perf_counter()
        self.compiled: float | None = None
        self.bar: Progress | None = None
        if not quiet and self.console.is_terminal:
            columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            self.bar = Progress(TextColumn("{task.description}"), *columns, console=self.console)
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
            self.bar.update(self.task, completed=step, description="  ".join([*parts, f"{speed:.0f} steps/s"]))
        elif done or now - self.last >= self.every:
            self.last = now
            if speed > 0:
                parts += [f"{speed:.1f} steps/s", f"{show_duration((self.steps - step) / speed)} left"]
            sys.stderr.write(f"step {step}/{self.steps}  {'  '.join(parts)}\n")
            sys.stderr.flush()

    def say(self, message: str) -> None:
        """A sentence that stays on the screen."""
        if not self.quiet:
            self.console.print(message, highlight=False, soft_wrap=True)
