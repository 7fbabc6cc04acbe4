"""Checkpoints of a run: the newest few and the best, each one file that is written whole or not at all.

Orbax did this before. For states of a few megabytes that one process writes, an npz file is written in a fraction of
its time and needs no start-up.
"""

import hashlib
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .._files import interrupts_held, replacing

logger = logging.getLogger(__name__)

SPARE = 2**20
"""Bytes that must be free beyond the arrays: for the log, the operator and the report."""

META = "meta"
"""The entry of a file with its step, error, seconds, configuration and digest, as JSON; the others are the arrays, by
number."""

FORMAT = 2
"""Since this format the digest is of all that a file holds; before, files had no number and digested the arrays."""


class Checkpoints:
    """A folder of checkpoints of one run: `<step>.npz`.

    A checkpoint is written beside and renamed when it is complete, so a run that is killed while writing leaves the
    previous one as the newest; an interrupt waits until it is written. Each has a digest of all that it holds, and one
    that is damaged is passed over for an older one. Whether a run may go on from them is for the configuration to say
    that they carry (`runs/train.py`); here only arrays of other shapes are refused.

    **Arguments:**

    - `folder`: where they are kept; created when the first is written.
    - `keep`: how many of the newest are kept, besides the one of lowest `error`.
    - `config`: the configuration that they are made with, as text.
    """

    def __init__(self, folder: Path, keep: int = 2, config: str = "") -> None:
        self.folder, self.keep, self.config = folder, keep, config
        self.errors: dict[int, float] = {}
        self.written: int | None = None

    def steps(self) -> list[int]:
        """The steps that there are checkpoints of, in ascending order."""
        files = (path for path in self.folder.glob("*.npz") if path.stem.isdecimal() and path.is_file())
        return sorted(int(path.stem) for path in files)

    def path(self, step: int) -> Path:
        return self.folder / f"{step}.npz"

    def save(self, step: int, state: PyTree, error: float, seconds: float) -> None:
        """Write the arrays of `state` and the seconds trained so far; `error` decides which checkpoint is the best."""
        if step == self.written:
            return
        arrays = [np.asarray(leaf) for leaf in _leaves(state)]
        meta = {"format": FORMAT, "step": step, "error": float(error), "seconds": float(seconds), "config": self.config}
        meta["digest"] = _digest(arrays, meta)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._check_space(step, sum(array.nbytes for array in arrays) + SPARE)
        try:
            with interrupts_held():
                with replacing(self.path(step)) as fresh:
                    _write(fresh, arrays, meta)
                self.written, self.errors[step] = step, float(error)
                self._forget()
        except OSError as failure:
            raise OSError(
                f"checkpoint {step} can't be written to {self.folder} ({_first_line(failure)}); those before it are "
                "whole, so go on with --resume"
            ) from failure

    def restore(self, *likes: PyTree) -> tuple[int, PyTree, float] | None:
        """The newest checkpoint that can be read, as (step, state, seconds), or None if there is none.

        **Arguments:**

        - `likes`: states of the structures that one may have, whose arrays are replaced.
        """
        found = self._newest()
        if found is None:
            return None
        step, meta, arrays = found
        like = next((like for like in likes if len(_leaves(like)) == len(arrays)), likes[0])
        self._compare(step, arrays, like)
        return step, _rebuild(like, arrays), float(meta["seconds"])

    def best(self, like: PyTree) -> tuple[float, PyTree] | None:
        """The error and the state of the best checkpoint, if there is one like `like` that can be read."""
        steps = self.steps()
        step = min(steps, key=self._error) if steps else None
        if step is None or not np.isfinite(self._error(step)):
            return None
        try:
            meta, arrays = _read(self.path(step))
        except Exception:  # as in `_newest`, which has told of it
            return None
        same = len(_leaves(like)) == len(arrays)
        return (float(meta["error"]), _rebuild(like, arrays)) if same else None

    def configuration(self) -> str | None:
        """The configuration that the newest checkpoint which can be read was made with; None if nothing is known."""
        try:
            found = self._newest(tell=False)
        except ValueError:
            return None
        return None if found is None else found[1].get("config") or None

    def _newest(self, *, tell: bool = True) -> tuple[int, dict[str, Any], list[np.ndarray]] | None:
        failure: Exception | None = None
        steps = self.steps()
        for step in reversed(steps):
            try:
                meta, arrays = _read(self.path(step))
                if meta["step"] != step:
                    raise ValueError(f"it is that of step {meta['step']}")
            except Exception as error:
                # A damaged zip file raises many kinds of errors; whichever it is, an older checkpoint may be whole.
                failure = failure or error
                if tell:
                    logger.warning(
                        "checkpoint %d can't be read and is passed over for an older one: %s", step, _first_line(error)
                    )
                continue
            return step, meta, arrays
        if failure is not None:
            raise ValueError(
                f"none of the {len(steps)} checkpoints in {self.folder} can be read (the newest: "
                f"{_first_line(failure)}); start anew with --overwrite"
            ) from failure
        return None

    def _forget(self) -> None:
        """Remove all but the newest and the best, and what a killed run left half written."""
        steps = self.steps()
        best = min(steps, key=self._error)
        for step in steps[: -self.keep]:
            if step != best:
                self.path(step).unlink(missing_ok=True)
        for path in self.folder.glob(".*.npz"):
            path.unlink(missing_ok=True)

    def _error(self, step: int) -> float:
        """The error of a checkpoint; one that can't be read is never the best."""
        if step not in self.errors:
            try:
                with self.path(step).open("rb") as file, np.load(file) as content:
                    self.errors[step] = _meta_of(content)["error"]
            except Exception:  # as in `restore`
                self.errors[step] = float("inf")
        return self.errors[step]

    def _check_space(self, step: int, needed: int) -> None:
        """A disk that is nearly full is named before anything is written."""
        free = shutil.disk_usage(self.folder).free
        if free < needed:
            raise OSError(
                f"checkpoint {step} needs about {needed / 1e6:.1f} MB in {self.folder} and {free / 1e6:.1f} MB are "
                "free: make room and go on with --resume"
            )

    def _compare(self, step: int, arrays: list[np.ndarray], like: PyTree) -> None:
        """A checkpoint of other shapes or another precision is refused, not passed over."""
        there = [f"{a.dtype}{list(a.shape)}" for a in arrays]
        here = [f"{a.dtype}{list(a.shape)}" for a in _leaves(like)]
        if there != here:
            i = next((i for i, (a, b) in enumerate(zip(there, here, strict=False)) if a != b), None)
            numbers = f"{len(there)} arrays instead of {len(here)}"
            raise ValueError(
                f"checkpoint {step} in {self.folder} is of another model or precision: it has "
                f"{numbers if i is None else f'{there[i]} instead of {here[i]}'}. Resume with the same settings, or "
                "start anew with --overwrite."
            )


def _write(path: Path, arrays: list[np.ndarray], meta: dict[str, Any]) -> None:
    entries: dict[str, Any] = {f"{i:05d}": array for i, array in enumerate(arrays)}
    entries[META] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    np.savez(path, **entries)


def _read(path: Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    # NumPy leaves a file that it opened itself open if it can't read it.
    with path.open("rb") as file, np.load(file) as content:
        # What a compressed entry says that it holds is not bounded by the size of the file.
        if any(entry.compress_type for entry in content.zip.infolist()):
            raise ValueError("it is compressed, which ours are not")
        meta = _meta_of(content)
        arrays = [content[name] for name in sorted(content.files) if name != META]
    digested = None if "format" not in meta else {key: value for key, value in meta.items() if key != "digest"}
    if _digest(arrays, digested) != meta["digest"]:
        raise ValueError("its digest is another one than that of its content")
    return meta, arrays


def _meta_of(content: Any) -> dict[str, Any]:
    return json.loads(content[META].tobytes())


def _digest(arrays: list[np.ndarray], meta: dict[str, Any] | None) -> str:
    """Of the arrays and of all that is said about them; None for the format that digested the arrays alone."""
    digest = hashlib.sha256(b"" if meta is None else json.dumps(meta, sort_keys=True).encode())
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _leaves(state: PyTree) -> list[Any]:
    return jax.tree.leaves(eqx.filter(state, eqx.is_array))


def _rebuild(like: PyTree, arrays: list[np.ndarray]) -> PyTree:
    dynamic, static = eqx.partition(like, eqx.is_array)
    restored = jax.tree.unflatten(jax.tree.structure(dynamic), [jnp.asarray(array) for array in arrays])
    return eqx.combine(restored, static)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
