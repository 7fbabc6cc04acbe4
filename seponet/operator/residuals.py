"""The residuals of an operator's predictions: how well they satisfy the equations, not how wrong they are."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from .._program import OwnProgram
from ..calculus.collocation import Nodes, make_collocation
from ..functions import Functions
from ..losses.pointwise import physics_loss
from ..nn.model import OperatorNetwork
from .nodes import choose_nodes, given_nodes


class Residuals:
    """Root mean squares of the equations and soft conditions of one model.

    **Arguments:**

    - `model`: the operator's network.
    """

    def __init__(self, model: OperatorNetwork) -> None:
        self.model = model
        self.names = tuple(term.name for term in model.problem.terms(model.exact))
        arrays, static = eqx.partition(model, eqx.is_array)

        @OwnProgram
        def losses(arrays: Any, inputs: Any, nodes: Nodes, slab: int, count: int) -> Array:
            network, ones = eqx.combine(arrays, static), jnp.ones((len(self.names), count))
            return physics_loss(network, inputs, make_collocation(network, nodes), ones, slab).table

        self._losses = lambda *arguments: losses(arrays, *arguments)

    def __call__(
        self, inputs: Mapping[str, Functions], count: int | None, nodes: Mapping[str, int] | None, memory: int
    ) -> xr.Dataset:
        """One variable for each term, over functions; see `Operator.residual`. To be called in the model's
        precision."""
        counts = choose_nodes(self.model, inputs) if nodes is None else given_nodes(self.model, nodes)
        length, *others = (n for _, n in counts)
        item = 8 * int(np.prod(others)) * jnp.zeros(()).dtype.itemsize
        rows = int(np.clip(memory // (2 * item * max(1, self.model.size // 8)), 1, length))
        functions = int(np.clip(memory // (2 * item * rows), 1, count or 1))
        slab = rows * int(np.prod(others))
        total = count or 1
        tables: list[np.ndarray] = []
        for start in range(0, total, functions):
            batch = {name: f[start : start + functions] for name, f in inputs.items()}
            tables.append(np.asarray(self._losses(batch, counts, slab, min(functions, total - start))))
        return self.label(np.concatenate(tables, axis=1), count)

    def label(self, squares: np.ndarray, count: int | None) -> xr.Dataset:
        """Mean squares `[terms, functions]` as root mean squares with names."""
        rms = np.sqrt(squares)
        dims = () if count is None else ("function",)
        return xr.Dataset({n: (dims, r if count is not None else r[0]) for n, r in zip(self.names, rms, strict=True)})
