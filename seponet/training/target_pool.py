"""The newest of the functions that the discretisation has solved, to be fitted by a network."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray


class TargetPool(eqx.Module):
    """Inputs at the sensors and the coefficients of their solutions; the oldest are overwritten.

    - `sensor_values`, `coefficients`: of every function.
    - `weights`: one over the squared norm of its solution; zero if it was not solved.
    - `written`: how many functions have been written so far.
    - `error`: the mean relative error of the network on the newest ones, before they were fitted.
    """

    sensor_values: dict[str, Float[Array, "pool *_"]]
    coefficients: Float[Array, "pool fields *_"]
    weights: Float[Array, " pool"]
    written: Int[Array, ""]
    error: Float[Array, ""]

    @classmethod
    def empty(cls, size: int, sensor_values: Mapping[str, Any], coefficients: Any) -> "TargetPool":
        """Room for `size` functions like those of a batch, of which only shapes and types are looked at."""

        def room(like: Any) -> Array:
            return jnp.zeros((size, *like.shape[1:]), like.dtype)

        values = {name: room(v) for name, v in sensor_values.items()}
        kind = coefficients.dtype
        return cls(values, room(coefficients), jnp.zeros(size, kind), jnp.zeros((), int), jnp.ones((), kind))

    @property
    def size(self) -> int:
        return self.weights.shape[0]

    def rows(self, key: PRNGKeyArray, count: int) -> Int[Array, " count"]:
        """Rows that have been written, at random."""
        return jax.random.randint(key, (count,), 0, jnp.minimum(self.written, self.size))

    def add(
        self, sensor_values: Mapping[str, Array], coefficients: Array, weights: Array, error: Array
    ) -> "TargetPool":
        """With the functions of a batch in place of the oldest ones. The size is a multiple of a batch."""
        start = self.written % self.size

        def write(old: Array, new: Array) -> Array:
            return jax.lax.dynamic_update_slice_in_dim(old, new.astype(old.dtype), start, 0)

        values = {name: write(old, sensor_values[name]) for name, old in self.sensor_values.items()}
        return TargetPool(
            values,
            write(self.coefficients, coefficients),
            write(self.weights, weights),
            self.written + weights.shape[0],
            error.astype(self.error.dtype),
        )
