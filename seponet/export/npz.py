"""Frozen programs as `.npz` files, with the one-file NumPy runtime beside them."""

from pathlib import Path

import numpy as np

from .. import frozen
from .._files import replacing, write_text
from .program import Program

RUNTIME = "seponet_frozen.py"


def write_npz(program: Program, path: Path) -> None:
    """Write `path`, and the runtime into the same folder."""
    source = Path(frozen.__file__).read_text(encoding="utf-8")
    runtime = path.with_name(RUNTIME)
    if runtime.exists() and not runtime.read_text(encoding="utf-8", errors="replace").startswith(source[:60]):
        raise ValueError(f"{runtime} is not the runtime that belongs there; move it, or choose another folder")
    header = np.frombuffer(program.to_json().encode(), np.uint8)
    with replacing(path) as fresh:
        np.savez(fresh, allow_pickle=False, program=header, numbers=program.numbers)
    write_text(runtime, source)
