"""A group of processes over TCP: each talks to the leader, and nobody waits for one that has gone."""

import contextlib
import io
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from .group import Group, ProcessLost
from .launch import Launch, is_loopback
from .link import Link, reason_of
from .meeting import meet

T = TypeVar("T")

BEAT = 1.0
"""Seconds between two signs of life."""

ARRIVAL = 50.0
"""Seconds in which all processes have to come. One that dies before it can say a word is missed after these: they, and
the end of the others, are to take less than a minute."""

LOADING = 40.0
"""Seconds of silence that a process is granted while it loads libraries, from a slow disk maybe, during which Python's
other threads stand still. One that has ended is missed at once all the same."""

LOST = 1
"""The exit code of a process that has to end because another is lost."""


class Star(Group):
    """The processes of a launch, joined.

    Every process gives a sign of life each second, from a thread that works whatever the process computes. One that was
    silent for `silence` seconds, or whose connection has ended, is lost: the leader tells the others, and whoever waits
    for it raises `ProcessLost`. A process that can't come to that, since it hangs in a collective operation of its
    devices, is ended after `grace` seconds; the leader's training is saved before.

    It is made before JAX is loaded, a moment after the process has begun, so that nearly all of its life is watched.

    **Arguments:**

    - `launch`: how they were started.
    - `arrival`: seconds in which all have to come.
    - `silence`: seconds without a sign of life after which a process is lost.
    - `patience`: seconds to wait for a process that lives but does not come.
    - `grace`: seconds that a process has to end by itself.
    """

    def __init__(
        self,
        launch: Launch,
        *,
        arrival: float = ARRIVAL,
        silence: float = 20.0,
        patience: float = 1800.0,
        grace: float = 10.0,
    ) -> None:
        self.launch, self.index, self.count = launch, launch.index, launch.count
        self.silence, self.patience, self.grace = silence, patience, grace
        self.lost: ProcessLost | None = None
        self._news = threading.Condition()
        self._words: dict[int, deque[tuple[Any, bytes]]] = {}
        self._stop: str | None = None
        self._computing: tuple[float, float] | None = None
        self._is_together, self._loaded = False, False
        self._left, self._closed = threading.Event(), threading.Event()
        self._ending = threading.Lock()
        self._listeners: list[threading.Thread] = []
        self.links, self.hosts = meet(launch, arrival, silence)
        for index, link in self.links.items():
            self._words[index] = deque()
            listener = threading.Thread(target=self._listen, args=(index, link), daemon=True)
            listener.start()
            self._listeners.append(listener)
        threading.Thread(target=self._beat, daemon=True).start()

    def loaded(self) -> None:
        """Wait until all have loaded what they need."""
        self.gather(None)
        self._loaded = True

    def same(self, make: Callable[[], T]) -> T:
        return self._from_leader(lambda: (make(), b""))[0]

    def same_arrays(self, make: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
        return _unpack(self._from_leader(lambda: (None, _pack(make())))[1])

    def gather(self, value: Any) -> list[Any]:
        if self.leader:
            values = [value, *(self._wait(index)[0] for index in sorted(self.links))]
            return self.same(lambda: values)
        self._send(0, "word", value)
        return self.same(list)

    def tick(self) -> float:
        said: list[Any] = self.same(lambda: [time.perf_counter(), self._stop])
        if said[1]:
            raise KeyboardInterrupt(said[1])
        return said[0]

    def interrupt(self) -> None:
        reason = f"process {self.index} was asked to end"
        if not self._is_together:
            raise KeyboardInterrupt(reason)
        # Not from here, where a message may be half sent: the thread that gives signs of life tells the leader.
        self._stop = reason

    @contextmanager
    def together(self) -> Iterator[None]:
        self._is_together = True
        try:
            yield
        finally:
            self._is_together = False

    @contextmanager
    def computing(self, seconds: float | None = None) -> Iterator[None]:
        seconds = self.patience if seconds is None else seconds
        self._computing = time.monotonic() + seconds, seconds
        try:
            yield
        except ProcessLost:
            raise
        except Exception as error:
            # Devices may notice sooner than we do that a process has gone.
            with self._news:
                self._news.wait_for(lambda: self.lost is not None, self.silence + 2 * BEAT)
            if self.lost is not None:
                raise self.lost from error
            raise
        finally:
            self._computing = None

    def disband(self) -> None:
        """Go apart, all at once: from here on a process that ends is not lost, and each has its own devices only."""
        self.gather(None)
        self._left.set()
        import jax

        jax.distributed.shutdown()

    @property
    def address(self) -> str:
        """The address of this process in the network in which the others were met."""
        found = [str(link.connection.getsockname()[0]) for link in self.links.values()]
        # The first that other machines can reach, if there are any.
        return next((address for address in found if not is_loopback(address)), found[0])

    @property
    def disbanded(self) -> bool:
        return self._left.is_set()

    def wait_for_leader(self) -> None:
        """Until the leader has ended: a scheduler may take the end of one process for that of all."""
        with self._news:
            self._news.wait_for(lambda: self.lost is not None)

    def fail(self, reason: str) -> bool:
        """Tell the others that this process ends; whether another has said the same already, so that one says it."""
        if self.lost is None:
            for index in self.links:
                with contextlib.suppress(OSError):
                    self.links[index].send("failed", reason)
            if self.leader:
                # JAX ends the others, with lines of its own, if its service goes before they do.
                deadline = time.monotonic() + 5 * BEAT
                for listener in self._listeners:
                    listener.join(max(deadline - time.monotonic(), 0.0))
                return False
            with self._news:
                self._news.wait_for(lambda: self.lost is not None, 5 * BEAT)
        return self.lost is not None and self.lost.told and str(self.lost).endswith(reason)

    def close(self) -> None:
        self._left.set()
        self._closed.set()
        for link in self.links.values():
            link.close()

    def end_at_once(self, sentence: str) -> None:
        """End this process without anything that would wait for the others, as Python's own end does with JAX."""
        with self._ending:
            if self.leader and self.rescue is not None:
                with contextlib.suppress(Exception):
                    self.rescue()
            if sentence:
                os.write(2, f"{sentence}\n".encode())
            for stream in (sys.stdout, sys.stderr):
                if isinstance(stream, io.TextIOBase):
                    with contextlib.suppress(Exception):
                        stream.flush()
            os._exit(LOST)

    def _from_leader(self, make: Callable[[], tuple[Any, bytes]]) -> tuple[Any, bytes]:
        if not self.leader:
            return self._wait(0)
        value, content = make()
        for index in self.links:
            self._send(index, "word", value, content)
        return value, content

    def _send(self, index: int, kind: str, value: Any = None, content: bytes = b"") -> None:
        if self.lost is not None:
            raise self.lost
        try:
            self.links[index].send(kind, value, content)
        except OSError as error:
            self._lose(index, reason_of(error))
            assert self.lost is not None
            raise self.lost from None

    def _wait(self, index: int) -> tuple[Any, bytes]:
        """The next word of a process."""
        with self._news:
            self._news.wait_for(lambda: self.lost is not None or self._words[index], self.patience)
            if self._words[index]:
                return self._words[index].popleft()
            if self.lost is None:
                name = self._name(index)
                self.lost = ProcessLost(f"{name} lives, but has not come for {self.patience:.0f} s")
            raise self.lost

    def _listen(self, index: int, link: Link) -> None:
        try:
            while True:
                kind, entries, content = link.receive()
                with self._news:
                    if kind == "word":
                        self._words[index].append((entries, content))
                    elif kind == "stop":
                        self._stop = self._stop or str(entries)
                    elif kind == "failed":
                        break
                    self._news.notify_all()
            self._lose(index, str(entries), told=True)
        except OSError as error:
            self._lose(index, reason_of(error))

    def _beat(self) -> None:
        """Signs of life, and who has given none."""
        told, last = False, time.monotonic()
        while not self._closed.wait(BEAT):
            now = time.monotonic()
            # Where this process itself stood still, what the others have said since then is not yet read.
            awake, last = now - last < 5 * BEAT, now
            limit = self.silence if self._loaded else max(self.silence, LOADING)
            for index, link in self.links.items():
                with contextlib.suppress(OSError):
                    if self._stop and not self.leader and not told:
                        link.send("stop", self._stop)
                        told = True
                    link.send("alive")
                silent = time.monotonic() - link.heard
                if awake and silent > limit:
                    self._lose(index, f"nothing was heard of it for {silent:.0f} s")
            computing = self._computing
            if computing is not None and time.monotonic() > computing[0]:
                self._lose(self.index, f"its devices have not answered for {computing[1]:.0f} s")

    def _lose(self, index: int, reason: str, told: bool = False) -> None:
        with self._news:
            if self.lost is not None:
                return
            if self._left.is_set():
                self.lost = ProcessLost(reason, told=True)
                self._news.notify_all()
                return
            sentence = f"{self._name(index)} stopped: {reason}" if told else f"{self._name(index)} was lost: {reason}"
            # What the leader passes on has been said by whom it happened to, or by the leader.
            self.lost = ProcessLost(reason if told and index == 0 and " was lost: " in reason else sentence, told)
            self._news.notify_all()
        if self.leader:
            for other in set(self.links) - {index}:
                with contextlib.suppress(OSError):
                    self.links[other].send("failed", str(self.lost))
        threading.Thread(target=self._end_later, daemon=True).start()

    def _end_later(self) -> None:
        if not self._left.wait(self.grace) and self.lost is not None:
            self.end_at_once("" if self.lost.told and not self.leader else f"seponet: {self.lost}")

    def _name(self, index: int) -> str:
        host = self.hosts.get(index)
        return f"process {index} of {self.count}" + (f" (on {host})" if host else "")


def _pack(arrays: list[np.ndarray]) -> bytes:
    content = io.BytesIO()
    for array in arrays:
        np.save(content, array, allow_pickle=False)
    return content.getvalue()


def _unpack(content: bytes) -> list[np.ndarray]:
    stream, arrays = io.BytesIO(content), []
    while stream.tell() < len(content):
        arrays.append(np.load(stream, allow_pickle=False))
    return arrays
