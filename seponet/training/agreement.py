"""Several processes that train together start from the same numbers: those of the leader."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ..distributed.group import Group
from ..distributed.mesh import device_mesh
from .abstract_step import AbstractStep


def spread(step: AbstractStep, group: Group) -> str:
    """Let all devices of all processes do a step together, and say how they share it; empty if there is one device.

    Each process has prepared the step by itself, from the same seed. Machines may differ in the last digits, and in
    what they measured: from here on all have the leader's numbers. A mesh that a user has set stays as it is.
    """
    if group.count > 1:
        step.adopt(same_tree(group, step.numbers(), "the step"))
    mesh = None if jax.sharding.get_abstract_mesh().shape else device_mesh()
    if mesh is None:
        return ""
    step.spread_over(mesh)
    functions, devices = step.config.functions if step.problem.inputs else 1, mesh.size
    if functions < devices:
        return (
            f"{functions} functions are fewer than {devices} devices, so some have nothing to do: raise train.functions"
        )
    most = -(-functions // devices)
    each = f"{most} each" if most * devices == functions else f"at most {most} each, filled up with zeros"
    return f"{devices} devices share the {functions} functions of a step: {each}"


def same_tree(group: Group, tree: PyTree, what: str) -> Any:
    """A tree of arrays with the leader's numbers; a `ValueError` where the arrays of this process have other shapes."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    mine = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves]
    theirs = group.same(lambda: mine)
    if mine != theirs:
        i = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), None)
        found = f"{len(mine)} arrays instead of {len(theirs)}" if i is None else f"{mine[i]} instead of {theirs[i]}"
        raise ValueError(
            f"process {group.index} made {what} of other shapes than process 0, {found}: let them use the same files, "
            "versions and kind of processor, or set model.rank and train.targets.first"
        )
    same = group.same_arrays(lambda: [np.asarray(leaf) for leaf in leaves])
    return eqx.combine(jax.tree.unflatten(structure, [jnp.asarray(array) for array in same]), rest)
