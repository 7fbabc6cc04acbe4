"""Supervised losses: pairs of inputs and solutions, where there are some."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..calculus.evaluate import evaluate
from ..calculus.model import Model
from ..equations.symbols import Symbol
from ..functions import Functions
from ..locations import Grid


class Data(eqx.Module):
    """Pairs of inputs and solutions.

    **Arguments:**

    - `inputs`: the input functions.
    - `where`: the grid on which the solutions are given.
    - `values`: for each field `[functions, *grid]`.
    """

    inputs: dict[str, Functions]
    where: Grid
    values: dict[str, Float[Array, "functions *grid"]]

    def loss(self, model: Model, key: PRNGKeyArray, most: int) -> Float[Array, ""]:
        """The mean squared errors of all fields, relative to their sizes, over at most `most` pairs,
        drawn at random with replacement."""
        total = next(iter(self.values.values())).shape[0]
        rows = jax.random.randint(key, (min(most, total),), 0, total)
        inputs = {name: functions[rows] for name, functions in self.inputs.items()}
        symbols = [Symbol("field", name) for name in self.values]
        predicted = evaluate(model, inputs, self.where, symbols)
        errors = [predicted[s] - self.values[s.name][rows] for s in symbols]
        sizes = [jnp.mean(self.values[s.name] ** 2) + 1e-30 for s in symbols]
        return sum((jnp.mean(e**2) / size for e, size in zip(errors, sizes, strict=True)), jnp.zeros(()))
