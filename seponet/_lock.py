"""One writer at a time: a lock on a folder, held by a process until it ends, however it ends.

The operating system's lock on the file decides wherever it works, and is gone with the process that held it. The file
also says who holds it. On file systems whose locks do not reach other machines that text is what a second process
goes by: the holder renews the file every few seconds, and one that has not been renewed for long is taken over.
"""

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

try:
    import fcntl
except ImportError:  # Windows: there the text of the file decides.
    fcntl = None

LOCK = ".lock"
RENEWED, STALE = 15.0, 120.0
"""Seconds between two renewals, and without one until a lock of another machine's is taken over."""


class Locked(ValueError):
    """Another process is writing there."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if it isn't there, and removed again if it is left empty.

    A folder that another living process has locked is refused at once, with its name and machine.
    """
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    handle = _acquire(folder)
    ended = threading.Event()
    beat = threading.Thread(target=_renew, args=(folder / LOCK, ended), daemon=True)
    beat.start()
    try:
        yield
    finally:
        ended.set()
        beat.join()
        (folder / LOCK).unlink(missing_ok=True)
        os.close(handle)
        for path in new:
            with contextlib.suppress(OSError):  # it is not empty: something was written
                path.rmdir()


def _acquire(folder: Path) -> int:
    path = folder / LOCK
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            shared = _try_lock(handle)
            holder = _holder(handle)
            if shared is False or (holder and _lives(holder, path, shared)):
                raise Locked(_sentence(folder, holder))
            # The file may have been removed by its holder, or taken by another process, in between.
            if _is_current(handle, path):
                os.ftruncate(handle, 0)
                os.pwrite(handle, json.dumps(_me()).encode(), 0)
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _try_lock(handle: int) -> bool | None:
    """Whether the operating system gives us the lock; None where it has none to give."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _lives(holder: dict[str, Any], path: Path, shared: bool | None) -> bool:
    """Whether the process that a lock names may still be writing."""
    if holder.get("host") == socket.gethostname():
        # Whoever had it on this machine would still hold the system's lock.
        return shared is None and _is_running(holder)
    with contextlib.suppress(OSError):
        return _now(path.parent) - path.stat().st_mtime < STALE
    return False


def _is_running(holder: dict[str, Any]) -> bool:
    """Whether a process of this machine lives; a later one of the same number is another."""
    try:
        return abs(psutil.Process(int(holder["process"])).create_time() - float(holder["started"])) < 2
    except (psutil.Error, KeyError, TypeError, ValueError):
        return False


def _now(folder: Path) -> float:
    """The time by the clock of the file system, which may be that of another machine."""
    probe = folder / f"{LOCK}-{os.getpid()}"
    probe.touch()
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _me() -> dict[str, Any]:
    started = psutil.Process().create_time()
    return {"process": os.getpid(), "host": socket.gethostname(), "started": started, "since": time.time()}


def _holder(handle: int) -> dict[str, Any]:
    """What the file says about who holds it; nothing if it is new, or was cut off."""
    try:
        said = json.loads(os.pread(handle, 4096, 0))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _is_current(handle: int, path: Path) -> bool:
    try:
        there = path.stat()
    except OSError:
        return False
    here = os.fstat(handle)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _renew(path: Path, ended: threading.Event) -> None:
    while not ended.wait(RENEWED):
        with contextlib.suppress(OSError):
            os.utime(path)


def _sentence(folder: Path, holder: dict[str, Any]) -> str:
    who = f"process {holder.get('process', '?')} on {holder.get('host', '?')}" if holder else "another process"
    return f"{folder} is being written by {who}: wait until it ends, or choose another folder"
