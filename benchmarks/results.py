"""Where results are kept, and on what machine they were measured."""

import json
import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import seponet

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """Versions, processor, commit and time."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    processor = next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], capture_output=True, text=True, cwd=RESULTS.parent).stdout.strip()

    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": {"seponet": seponet.__version__, **{name: version(name) for name in ("jax", "equinox", "optax")}},
        "commit": git("rev-parse", "HEAD"),
        "modified": git("status", "--porcelain", "--untracked-files=no", "--", "*.py", "*.toml").splitlines(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "load": os.getloadavg()[0],
    }


def store(name: str, content: dict[str, Any]) -> Path:
    """Write one result, atomically; a name may have folders."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".json.new")
    temporary.write_text(json.dumps(content, indent=1) + "\n")
    temporary.replace(path)
    return path
