"""One command run by several processes: JAX's distributed runtime, from its beginning to its end."""

import functools
import importlib
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from .group import ALONE, Group, ProcessLost
from .launch import Launch
from .mesh import FUNCTIONS, device_mesh
from .star import Star

logger = logging.getLogger(__name__)

READY = 120.0
"""Seconds in which the devices of all processes have to find each other."""


@contextmanager
def joined(star: Star | None, sentence: Callable[[BaseException], str] = str) -> Iterator[Group]:
    """The group of processes that have met, with their devices, while the block runs; None gives a process alone.

    If it fails in one process, it ends in all: each writes what happened to it, once, and is gone at once, since
    whatever else Python and JAX do at their end would wait for the others.

    **Arguments:**

    - `sentence`: what to write about an error.
    """
    if star is None:
        yield ALONE
        return
    others = logging.getLogger("seponet")
    level = others.level
    if not star.leader:
        others.setLevel(logging.ERROR)
    try:
        star.loaded()
        _initialise(star)
        with star.computing(READY):
            seen = see_devices()
        if star.leader:
            source, address = star.launch.source, star.launch.address
            logger.info("%s; started by %s, process 0 at %s", seen.describe(star.hosts), source, address)
        yield star
        if not star.disbanded:
            star.disband()
        if not star.leader:
            star.wait_for_leader()
    except ProcessLost as lost:
        star.end_at_once("" if lost.told and not star.leader else f"{sentence(lost)}")
    except BaseException as error:
        if star.disbanded:
            raise
        told = star.fail(str(error) or type(error).__name__)
        star.end_at_once("" if told else sentence(error))
    finally:
        others.setLevel(level)
        star.close()


@dataclass(frozen=True)
class Seen:
    """What an all-reduce over all devices has shown.

    - `processes`, `devices`: how many took part.
    - `platform`: of the devices.
    - `seconds`: of one all-reduce of a float32, after the first.
    """

    processes: int
    devices: int
    platform: str
    seconds: float

    def describe(self, hosts: dict[int, str]) -> str:
        names = list(dict.fromkeys(hosts.values()))
        where = f"on {names[0]}" if len(names) == 1 else f"on {len(names)} machines ({', '.join(names[:8])})"
        by = "gloo" if self.platform == "cpu" else "the vendor's library"
        return (
            f"{self.processes} processes {where} with {self.devices} devices ({self.platform}, joined by {by}; an "
            f"all-reduce takes {1e3 * self.seconds:.2g} ms)"
        )


def see_devices() -> Seen:
    """Sum a number of every device over all of them, and compare with the sum that it has to be."""
    count, devices = jax.process_count(), jax.devices()
    mesh = device_mesh()
    if mesh is None:
        return Seen(count, 1, devices[0].platform, 0.0)
    rows = NamedSharding(mesh, PartitionSpec(FUNCTIONS))
    whole = NamedSharding(mesh, PartitionSpec())
    numbers = np.arange(1.0, len(devices) + 1, dtype=np.float32)
    split = jax.make_array_from_callback(numbers.shape, rows, lambda index: numbers[index])
    total = jax.jit(jnp.sum, out_shardings=whole)
    with _gloo_muted():
        found = float(total(split))
    if found != numbers.sum():
        raise RuntimeError(f"the sum over {len(devices)} devices is {found:g} instead of {numbers.sum():g}")
    began = time.perf_counter()
    for _ in range(10):
        jax.block_until_ready(total(split))
    return Seen(count, len(devices), devices[0].platform, (time.perf_counter() - began) / 10)


def _initialise(star: Star) -> None:
    launch, port = star.launch, star.same(_free_port)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    _tell_gloo(star.address)
    if hasattr(jax.config, "jax_enable_preemption_service"):
        # A request to end is ours to handle.
        jax.config.update("jax_enable_preemption_service", False)
    host = f"[{launch.host}]" if ":" in launch.host else launch.host
    jax.distributed.initialize(
        f"{host}:{port}",
        launch.count,
        launch.index,
        local_device_ids=local_devices(launch),
        cluster_detection_method="deactivate",
        initialization_timeout=int(READY),
        # We notice a loss sooner, and save what there is before JAX ends the process.
        heartbeat_timeout_seconds=60,
        shutdown_timeout_seconds=20,
    )


def _tell_gloo(address: str) -> None:
    """Let gloo wait at an address, that of the network in which the processes have met.

    By itself it takes what the machine's own name stands for there: loopback, on many, so that no other machine finds
    it, and nothing at all in some containers. JAX has no setting for that; a version that makes gloo in another way
    does as it likes.
    """
    try:
        library: Any = importlib.import_module("jaxlib._jax")
        make = library.make_gloo_tcp_collectives
    except (ImportError, AttributeError):
        return
    library.make_gloo_tcp_collectives = functools.partial(make, hostname=address)


def local_devices(launch: Launch, environ: dict[str, str] | None = None) -> list[int] | None:
    """Which of its machine's accelerators a process takes, if it shares them with others; None for all that it sees.

    A scheduler that gives each process its own shows it no others.
    """
    environ = dict(os.environ) if environ is None else environ
    count, index = launch.local_count, launch.local_index
    if count is None or index is None or count == 1:
        return None
    visible = next((environ[n] for n in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES") if n in environ), None)
    if visible is None:
        return [index]
    each = len([name for name in visible.split(",") if name]) // count
    return list(range(index * each, (index + 1) * each)) if each else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


@contextmanager
def _gloo_muted() -> Iterator[None]:
    """Gloo prints on standard output that it is connected, which is for results."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def facts(group: Group) -> dict[str, Any]:
    """What `seponet info --distributed` says."""
    seen = see_devices()
    mine = {"process": group.index, "devices": [str(device) for device in jax.local_devices()]}
    hosts = group.gather({**mine, "host": socket.gethostname(), "pid": os.getpid()})
    return {
        "processes": seen.processes,
        "devices": seen.devices,
        "platform": seen.platform,
        "all_reduce_seconds": seen.seconds,
        "members": hosts,
    }
