"""Checkpoints of a run: the newest few and the best, written atomically by Orbax."""

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import orbax.checkpoint as ocp
from jaxtyping import PyTree
from orbax.checkpoint.checkpoint_managers import preservation_policy

from .._files import interrupts_held

logger = logging.getLogger(__name__)

SPARE = 2**20
"""Bytes for what stands beside the arrays."""


class Checkpoints:
    """A folder of checkpoints of one run.

    A checkpoint is written to a temporary folder and renamed when it is complete, so a run that is killed while writing
    leaves the previous one as the newest; an interrupt waits until it is written.

    **Arguments:**

    - `folder`: where they are kept; created when the first is written.
    - `config`: what the run was made with. A checkpoint of another configuration is refused.
    - `keep`: how many of the newest are kept, besides the one of lowest `error`.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], keep: int = 2) -> None:
        # Orbax reports every step of its work at the INFO level, harmless details of CPU runs as warnings, and errors
        # with tracebacks although it raises them too.
        logging.getLogger("absl").setLevel(logging.CRITICAL)
        self.config = dict(config)
        policy = preservation_policy.AnyPreservationPolicy(
            [
                preservation_policy.LatestN(keep),
                preservation_policy.BestN(get_metric_fn=lambda metrics: metrics["error"], reverse=True, n=1),
            ]
        )
        options = ocp.CheckpointManagerOptions(
            preservation_policy=policy, enable_async_checkpointing=False, cleanup_tmp_directories=True, create=True
        )
        self.manager = ocp.CheckpointManager(folder.absolute(), options=options)

    def save(self, step: int, state: PyTree, error: float, seconds: float) -> None:
        """Write the arrays of `state` and the seconds trained so far; `error` decides which checkpoint is the best."""
        if step in self.manager.all_steps():
            return
        leaves = _leaves(state)
        self._check_space(step, sum(leaf.nbytes for leaf in leaves.values()) + SPARE)
        items = ocp.args.Composite(
            state=ocp.args.StandardSave(leaves),
            config=ocp.args.JsonSave(self.config),
            clock=ocp.args.JsonSave({"seconds": seconds}),
        )
        try:
            with interrupts_held():
                self.manager.save(step, args=items, metrics={"error": float(error)})
                self.manager.wait_until_finished()
        except Exception as failure:
            raise OSError(
                f"checkpoint {step} can't be written to {self.manager.directory} ({_first_line(failure)}); those "
                "before it are whole, so go on with --resume"
            ) from failure

    def restore(self, like: PyTree) -> tuple[int, PyTree, float] | None:
        """The newest checkpoint that can be read, as (step, state, seconds), or None if there is none.

        **Arguments:**

        - `like`: a state of the same structure, whose arrays are replaced.
        """
        failure: Exception | None = None
        steps = sorted(self.manager.all_steps(), reverse=True)
        for step in steps:
            try:
                found = self.manager.restore(
                    step,
                    args=ocp.args.Composite(
                        config=ocp.args.JsonRestore(),
                        clock=ocp.args.JsonRestore(),
                        state=ocp.args.StandardRestore(jax.tree.map(ocp.utils.to_shape_dtype_struct, _leaves(like))),
                    ),
                )
            except Exception as error:
                # Orbax and TensorStore raise many kinds for damaged files; whichever it is, an older one may be whole.
                self._check_config(step)
                failure = error
                logger.warning(
                    "checkpoint %d can't be read and is passed over for an older one: %s", step, _first_line(error)
                )
                continue
            self._compare(found["config"], step)
            return step, _rebuild(like, found["state"]), float(found["clock"]["seconds"])
        if failure is not None:
            raise ValueError(
                f"none of the {len(steps)} checkpoints in {self.manager.directory} can be read (the newest: "
                f"{_first_line(failure)}); start anew with --overwrite"
            ) from failure
        return None

    def close(self) -> None:
        self.manager.close()

    def _check_space(self, step: int, needed: int) -> None:
        """Orbax litters the screen from its threads when a disk is full, so this is seen before it begins."""
        free = shutil.disk_usage(self.manager.directory).free
        if free < needed:
            raise OSError(
                f"checkpoint {step} needs about {needed / 1e6:.1f} MB in {self.manager.directory} and {free / 1e6:.1f} "
                "MB are free: make room and go on with --resume"
            )

    def _check_config(self, step: int) -> None:
        """A checkpoint that doesn't fit because of its configuration is refused, not passed over."""
        try:
            found = self.manager.restore(step, args=ocp.args.Composite(config=ocp.args.JsonRestore()))
        except Exception:
            return
        self._compare(found["config"], step)

    def _compare(self, found: Mapping[str, Any], step: int) -> None:
        differences = [
            f"{key} is {self.config.get(key)!r} here and {found.get(key)!r} there"
            for key in sorted(set(self.config) | set(found))
            if self.config.get(key) != found.get(key)
        ]
        if differences:
            raise ValueError(
                f"checkpoint {step} in {self.manager.directory} was made with another configuration: "
                f"{'; '.join(differences)}. Resume with the same one, or start anew with --overwrite."
            )


def _leaves(state: PyTree) -> dict[str, Any]:
    return {f"{i:05d}": leaf for i, leaf in enumerate(jax.tree.leaves(eqx.filter(state, eqx.is_array)))}


def _rebuild(like: PyTree, leaves: Mapping[str, Any]) -> PyTree:
    arrays, static = eqx.partition(like, eqx.is_array)
    structure = jax.tree.structure(arrays)
    return eqx.combine(jax.tree.unflatten(structure, [leaves[key] for key in sorted(leaves)]), static)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
