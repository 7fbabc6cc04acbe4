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
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from .calculus import Model, evaluate
from .expression import Symbol
from .functions import Functions
from .locations import Grid
from .nn.model import Sensors
from .problem import Problem


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
        for name, own in self.states.items():
            made = jax.tree.map(choose, own.parameters, advanced[name].parameters, fresh[name].parameters)
            states[name] = Functions(own.space, made)
        return Pool(states, self.age.at[rows].set(jnp.where(kept, older, 0)))


def start_pool(problem: Problem, key: PRNGKeyArray, size: int) -> Pool:
    """Fresh states."""
    drawn = problem.sample(key, size)
    return Pool({name: drawn[name] for name in problem.inputs}, jnp.zeros(size, int))


def end_of_window(model: Model, sensors: Sensors, inputs: Mapping[str, Functions]) -> dict[str, Functions]:
    """The inputs of the next window: the state at the end of this one, as functions of the inputs' spaces.

    **Arguments:**

    - `model`: whose solution is continued.
    - `sensors`: the grid on which the state is read.
    - `inputs`: of this window.
    """
    problem = model.problem
    time = problem.time_axis()
    counts = {axis: n for _, own in sensors for axis, n in own}
    missing = [name for name in problem.domain if name not in counts and name != time]
    if missing:
        raise ValueError(f"the model has no sensors along {', '.join(missing)} to read a state at")
    places = {
        name: [axis.upper]
        if name == time
        else np.linspace(axis.lower, axis.upper, counts[name], endpoint=not axis.periodic)
        for name, axis in problem.domain.axes
    }
    # Known while tracing, so that bases tabulate them.
    with jax.ensure_compile_time_eval():
        grid = Grid.of(problem.domain, {name: jnp.asarray(p, float) for name, p in places.items()})
    symbols = [Symbol("field", field) for field in problem.fields]
    found = evaluate(model, inputs, grid, symbols)
    along = 1 + problem.domain.names.index(time)
    return problem.restart(inputs, {s.name: jnp.squeeze(found[s], along) for s in symbols})
