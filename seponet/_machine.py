"""Facts about the machine and the software that a result depends on."""

import ctypes
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import psutil

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy")


def versions() -> dict[str, str]:
    """Versions of Python, this package and those that decide about numbers."""
    from . import __version__

    numerical = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"seponet": __version__, "python": platform.python_version(), **numerical}


def machine() -> dict[str, Any]:
    """Processor, cores that may be used, memory and JAX's devices."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": cores,
        "memory_bytes": psutil.virtual_memory().total,
        "devices": [device.device_kind for device in jax.devices()],
    }


def git_commit() -> str | None:
    """The commit of this package's source, if it is used from a checkout."""
    root = Path(__file__).parent.parent
    if not (root / ".git").exists():
        return None
    try:
        git = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return git.stdout.strip() or None


def return_free_memory() -> None:
    """Give memory that was freed back to the system, where the C library keeps it.

    A compiler allocates in small pieces: of 1.2 GiB after one training 0.8 GiB were free, and kept by glibc.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc; other libraries have none
        if trim is not None:
            trim(ctypes.c_size_t(0))


def peak_memory_bytes() -> int:
    """The most memory that this process has had."""
    if sys.platform == "win32":
        return psutil.Process().memory_info().peak_wset
    # psutil knows a peak on Windows only; elsewhere the kernel does, in bytes on macOS and in KiB on Linux.
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def host_memory() -> int:
    """Bytes that are free for arrays of NumPy's."""
    return psutil.virtual_memory().available


def available_memory() -> int | None:
    """Bytes that a training run may take, on the accelerator if there is one; None if nobody knows."""
    device = jax.local_devices()[0]
    if device.platform == "cpu":
        return psutil.virtual_memory().available
    statistics = device.memory_stats() or {}
    if "bytes_limit" not in statistics:
        return None
    return statistics["bytes_limit"] - statistics.get("bytes_in_use", 0)


def matmul_rate() -> float:
    """Floating point operations a second in matrix products on the CPU, measured in a few milliseconds."""
    n = 512
    a = np.ones((n, n), np.float32)
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        np.matmul(a, a)
        best = min(best, time.perf_counter() - began)
    return 2 * n**3 / best


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
