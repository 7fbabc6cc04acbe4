"""An average of the weights along the run, for evaluation."""

import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree


def average(weights: PyTree, mean: PyTree, step: Int[Array, ""] | int, decay: float = 0.999) -> PyTree:
    r"""$\bar w \leftarrow \bar w + \max(1 - \beta, 1 / (t + 1)) \, (w - \bar w)$.

    The plain mean of all weights so far until that covers $1 / (1 - \beta)$ steps, and an exponential average from
    there on: the random first weights are forgotten without a bias correction.

    **Arguments:**

    - `weights`: the weights after step `step`.
    - `mean`: the average before it; at step 0 its values don't matter.
    - `step`: $t$, counted from 0.
    - `decay`: $\beta$.
    """
    return optax.incremental_update(weights, mean, jnp.maximum(1 - decay, 1 / (step + 1)))
