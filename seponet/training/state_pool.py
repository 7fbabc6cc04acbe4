r"""Windows of time, one after the other: a state that the model has advanced is the input of the next window.

A short window is easy to learn and a long time is many of them, but the states in the middle are not the inputs that a
problem declares. So training keeps a pool of states of several ages. In every step some of them are trained on, and
then advanced to the end of their window by the model itself, without any solution data: but only if the state's own
residual is small, since otherwise the pool would fill with states that no solution passes through. Others, and those
that are old enough, are replaced by fresh ones.
"""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from ..equations.problem import Problem
from ..functions import Functions


class Pool(eqx.Module):
    """States to train on.

    - `states`: for each input its functions.
    - `age`: by how many windows each has been advanced.
    """

    states: dict[str, Functions]
    age: Int[Array, " states"]

    def draw(self, key: PRNGKeyArray, count: int) -> Int[Array, " count"]:
        """The rows to train on next, each at most once."""
        return jax.random.permutation(key, self.age.shape[0])[:count]

    def replace(
        self,
        rows: Int[Array, " rows"],
        advanced: Mapping[str, Functions],
        fresh: Mapping[str, Functions],
        good: Bool[Array, " rows"],
        limit: Array,
    ) -> "Pool":
        """With the good rows one window older, but for those that are then beyond `limit`, and fresh ones else."""
        older = self.age[rows] + 1
        kept = good & (older < limit)

        def choose(old: Array, new: Array, other: Array) -> Array:
            where = kept.reshape(-1, *(1,) * (new.ndim - 1))
            return old.at[rows].set(jnp.where(where, new, other).astype(old.dtype))

        states: dict[str, Functions] = {}
        for name, functions in self.states.items():
            parameters = jax.tree.map(choose, functions.parameters, advanced[name].parameters, fresh[name].parameters)
            states[name] = Functions(functions.space, parameters)
        return Pool(states, self.age.at[rows].set(jnp.where(kept, older, 0)))


def start_pool(problem: Problem, key: PRNGKeyArray, size: int) -> Pool:
    """Fresh states."""
    drawn = problem.sample(key, size)
    return Pool({name: drawn[name] for name in problem.inputs}, jnp.zeros(size, int))
