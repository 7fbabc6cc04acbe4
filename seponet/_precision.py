"""Contexts in which JAX computes in float64. The user's own setting, `jax_enable_x64`, is never touched."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

DOUBLE = np.dtype("float64")


@contextmanager
def double_precision() -> Iterator[None]:
    """Run JAX in float64 inside the block only; the user's own setting is untouched.

    Rank promotion is allowed inside, because exponax relies on it.
    """
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        yield


def to_double(tree: PyTree) -> Any:
    """The same in float64, integers left as they are. To be called in double precision."""
    return jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_inexact_array(leaf) else leaf, tree)


def is_double(model: PyTree) -> bool:
    """Whether any array of a model is in float64."""
    # Asked for at every prediction: `equinox.filter` would take five times as long as this.
    return any(getattr(leaf, "dtype", None) == DOUBLE for leaf in jax.tree.leaves(model))


def in_precision_of(model: PyTree) -> AbstractContextManager[Any]:
    """A context in which a model trained in float64 computes in float64, whatever the precision around it."""
    return jax.enable_x64(True) if is_double(model) else nullcontext()
