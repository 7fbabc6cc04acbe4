"""Flipped bits: whatever is read back is what was written, or a sentence."""

import contextlib
import io
import logging
import math
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from seponet import nn
from seponet.cli import main
from seponet.evaluation.testset import load_testset
from seponet.operator.operator import Operator
from seponet.problems import Heat
from seponet.training.checkpoints import Checkpoints

from .table import Tally

SMALL: dict[str, Any] = {"rank": 2, "trunk_width": 3, "trunk_depth": 1, "branch_width": 3, "branch_depth": 1}
POINTS = {"t": np.linspace(0, 1, 3), "x": np.linspace(0, 1, 5)}


def flipped(content: bytes, numbers: random.Random) -> bytes:
    """The same with one bit another, or cut off."""
    if numbers.random() < 0.1:
        return content[: numbers.randrange(len(content))]
    changed = bytearray(content)
    changed[numbers.randrange(len(content))] ^= 1 << numbers.randrange(8)
    return bytes(changed)


def attack(tally: Tally, file: Path, read: Callable[[], str], numbers: random.Random, times: int, until: float) -> None:
    """Flip a bit of a file, read it, and put it back, several times."""
    whole = file.read_bytes()
    for i in range(times):
        if time.monotonic() > until:
            break
        file.write_bytes(flipped(whole, numbers))
        tally.count(outcome(read), f"{file.name} #{i}")
        file.write_bytes(whole)


def outcome(read: Callable[[], str]) -> str:
    """What came of reading: its own word, "refused" for one sentence, or the kind of error that nobody has foreseen."""
    try:
        return read()
    except ValueError as error:
        return "refused" if str(error) and "\n" not in str(error).strip() else f"no sentence: {error!r:.200}"
    except Exception as error:
        # Where `conftest.py` has types checked at run time, that comes first.
        return "refused" if type(error).__name__ == "TypeCheckError" else f"{type(error).__name__}: {error}"[:200]


def arrays_of(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype")]


def flip_operators(folder: Path, numbers: random.Random, times: int, until: float = math.inf) -> Tally:
    tally, path = Tally("bits of a saved operator"), folder / "operator"
    operator = Operator(nn.build(Heat(), key=jax.random.key(0), sensors=4, **SMALL))
    operator.save(path)
    expected = arrays_of(operator.model)

    def read() -> str:
        loaded = Operator.load(path)
        same = arrays_of(loaded.model) == expected and loaded.problem == operator.problem
        return "harmless" if same else "another operator without a word"

    for file in (path / "operator.json", path / "arrays.npz"):
        attack(tally, file, read, numbers, times // 2, until)
    return tally


def flip_checkpoints(folder: Path, numbers: random.Random, times: int, until: float = math.inf) -> Tally:
    tally, path = Tally("bits of a checkpoint"), folder / "checkpoints"
    states = {step: {"w": jax.numpy.full(20, float(step)), "k": jax.numpy.arange(3)} for step in (1, 2)}
    for step, state in states.items():
        Checkpoints(path, config=f"problem = {step}").save(step, state, 0.5, float(step))

    def read() -> str:
        found = Checkpoints(path).restore(states[1])
        if found is None:
            return "no checkpoint"
        step, state, seconds = found
        right = arrays_of(state) == arrays_of(states[step]) and seconds == step
        known = Checkpoints(path).configuration() == f"problem = {step}"
        # A damaged one is passed over for the one before, with a warning.
        return ("harmless" if step == 2 else "refused") if right and known else "another state without a word"

    attack(tally, path / "2.npz", read, numbers, times, until)
    return tally


def flip_testsets(cache: Path, numbers: random.Random, times: int, until: float = math.inf) -> Tally:
    tally = Tally("bits of a cached test set")
    whole = load_testset(Heat(), functions=2, points=POINTS).data
    (file,) = cache.glob("heat-test-*.nc")
    kept = file.read_bytes()

    def read() -> str:
        again = load_testset(Heat(), functions=2, points=POINTS).data
        renewed = file.read_bytes() != damaged[0]
        same = whole.drop_attrs().identical(again.drop_attrs())
        # A damaged one is made anew, with a warning.
        return ("refused" if renewed else "harmless") if same else "other solutions without a word"

    damaged = [b""]
    for i in range(times):
        if time.monotonic() > until:
            break
        damaged[0] = flipped(kept, numbers)
        file.write_bytes(damaged[0])
        tally.count(outcome(read), f"{file.name} #{i}")
    file.write_bytes(kept)
    return tally


def flip_runs(run: Path, folder: Path, numbers: random.Random, times: int, until: float = math.inf) -> Tally:
    """`info`, which reads every file of a run: it prints what it prints of the whole one, or says what is damaged."""
    tally, copy = Tally("bits of a run folder, by info"), folder / "copy"
    shutil.copytree(run, copy)
    code, whole, said = run_command(["info", str(copy)])
    if code or said:
        tally.count(f"code {code}: {said}", "info of the whole run")
        return tally

    def read() -> str:
        code, shown, said = run_command(["info", str(copy)])
        # A sentence is on standard error: with code 1 the only one, with code 0 a warning beside what is still known.
        lines = said.strip().splitlines()
        if any(len(line) < 20 or "unexpected" in line for line in lines) or (code and len(lines) != 1):
            return f"code {code}: {said}"
        if lines:
            return "refused"
        return "harmless" if (code, shown) == (0, whole) else f"other facts without a word: {shown}"

    files = sorted(path for path in copy.rglob("*") if path.is_file() and "figures" not in path.parts)
    for file in files:
        attack(tally, file, read, numbers, max(1, times // len(files)), until)
    return tally


def run_command(call: list[str]) -> tuple[int, str, str]:
    """What a command ends with, prints and says."""
    shown, said = io.StringIO(), io.StringIO()
    before = logging.root.manager.disable
    logging.disable(logging.NOTSET)
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(said):
            code = main([*call])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        logging.disable(before)
    return code, shown.getvalue(), said.getvalue()
