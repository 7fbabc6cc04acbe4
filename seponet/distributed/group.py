"""The processes that run one command together, as a training sees them; and the usual case, one alone."""

import abc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


class ProcessLost(ConnectionError):
    """A process of the group is not there any more, so that no other can go on.

    **Arguments:**

    - `reason`: one sentence.
    - `told`: whether another process has said so already.
    """

    def __init__(self, reason: str, told: bool = False) -> None:
        super().__init__(reason)
        self.told = told


class Group(abc.ABC):
    """Processes that do the same, step by step. Process 0, the leader, decides whatever hangs on a clock, a file or the
    last digit of a number, and is the only one that writes.

    - `index`, `count`: which process this is, and of how many.
    - `rescue`: what saves the state of a training, if this process has to end at once.
    """

    index: int
    count: int
    rescue: Callable[[], None] | None = None

    @property
    def leader(self) -> bool:
        return self.index == 0

    @abc.abstractmethod
    def same(self, make: Callable[[], T]) -> T:
        """What the leader makes of it, at every process: numbers, text, lists and tables of them."""

    @abc.abstractmethod
    def same_arrays(self, make: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
        """The leader's arrays, at every process."""

    @abc.abstractmethod
    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, at every process."""

    @abc.abstractmethod
    def tick(self) -> float:
        """The leader's clock. A `KeyboardInterrupt` at every process if one of them was asked to end."""

    @abc.abstractmethod
    def interrupt(self) -> None:
        """What to do where a signal asks this process to end."""

    @abc.abstractmethod
    @contextmanager
    def together(self) -> Iterator[None]:
        """A block in which all processes come to the same `tick`s, so that an interrupt waits for the next one."""
        yield

    @abc.abstractmethod
    @contextmanager
    def computing(self, seconds: float | None = None) -> Iterator[None]:
        """A block in which devices of several processes work together, for at most so many seconds: its failure is that
        of a lost process, if one was lost."""
        yield

    @abc.abstractmethod
    def disband(self) -> None:
        """Nothing is done together any more."""


class Alone(Group):
    """One process: nothing has to be agreed on."""

    index, count = 0, 1

    def same(self, make: Callable[[], T]) -> T:
        return make()

    def same_arrays(self, make: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
        return make()

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def tick(self) -> float:
        return time.perf_counter()

    def interrupt(self) -> None:
        raise KeyboardInterrupt("the process was asked to end")

    @contextmanager
    def together(self) -> Iterator[None]:
        yield

    @contextmanager
    def computing(self, seconds: float | None = None) -> Iterator[None]:
        yield

    def disband(self) -> None:
        pass


ALONE = Alone()
