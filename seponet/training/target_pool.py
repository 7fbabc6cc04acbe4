"""The newest of the functions that the discretisation has solved, to be fitted by a network."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree


class Solved(eqx.Module):
    """A batch of solved functions.

    - `prepared`: what the branch starts from.
    - `targets`: what the model should make of it, in numbers that have the norm of the solution.
    - `weights`: one over the squared norm of its solution, in the unit of `targets`; zero if it was not solved.
    """

    prepared: PyTree[Float[Array, "functions *_"]]
    targets: Float[Array, "functions n"]
    weights: Float[Array, " functions"]

    def __len__(self) -> int:
        return self.weights.shape[0]


class TargetPool(eqx.Module):
    """Solved functions; the oldest are overwritten.

    - `solved`: all of them, as many as there is room for.
    - `written`: how many functions have been written so far.
    - `renew`: steps between two batches.
    - `error`: the mean relative error of the network on the newest ones, before they were fitted.
    """

    solved: Solved
    written: Int[Array, ""]
    renew: Int[Array, ""]
    error: Float[Array, ""]

    @classmethod
    def empty(cls, size: int, like: Any, renew: int) -> "TargetPool":
        """Room for `size` functions like those of a batch, of which only shapes and types are looked at."""
        room = jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape[1:]), leaf.dtype), like)
        return cls(room, jnp.zeros((), int), jnp.asarray(renew, int), jnp.ones((), like.weights.dtype))

    @property
    def size(self) -> int:
        return len(self.solved)

    def rows(self, key: PRNGKeyArray, count: int) -> Solved:
        """Functions that have been written, at random."""
        rows = jax.random.randint(key, (count,), 0, jnp.minimum(self.written, self.size))
        return jax.tree.map(lambda leaf: leaf[rows], self.solved)

    def add(self, batch: Solved, error: Array) -> "TargetPool":
        """With the functions of a batch in place of the oldest ones. The size is a multiple of a batch."""
        start = self.written % self.size

        def write(old: Array, new: Array) -> Array:
            return jax.lax.dynamic_update_slice_in_dim(old, new.astype(old.dtype), start, 0)

        solved = jax.tree.map(write, self.solved, batch)
        return TargetPool(solved, self.written + len(batch), self.renew, error.astype(self.error.dtype))
