"""One model with coefficients of its own: what refinement changes and what tables are contracted with."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float

from .conditions import Face
from .features import Features, Request
from .locations import Evaluator, Where
from .nn.model import OperatorNetwork
from .problem import Problem


class Solution(eqx.Module):
    """A model whose branch has already spoken, and perhaps its trunks too. Calculus and loss take it for a model.

    **Arguments:**

    - `model`: whose basis functions and lift.
    - `given`: the coefficients of each function.
    - `table`: the basis functions where the solution is wanted; None computes them.
    """

    model: OperatorNetwork
    given: Float[Array, "functions fields *_"]
    table: Features | None = None

    @property
    def problem(self) -> Problem:
        return self.model.problem

    @property
    def exact(self) -> tuple[str, ...]:
        return self.model.exact

    def features(self, where: Where, boundary: Where, request: Request) -> Mapping[Face | None, Features]:
        return self.model.features(where, boundary, request) if self.table is None else {None: self.table}

    def lifts(self, inputs: Mapping[str, Evaluator]) -> Mapping[str, Evaluator | None]:
        return self.model.lifts(inputs)

    def encode(self, inputs: Mapping[str, Evaluator]) -> Mapping[str, Array]:
        return {}

    def coefficients(self, code: Mapping[str, Array]) -> Float[Array, "functions fields *_"]:
        return self.given


def is_double(model: OperatorNetwork) -> bool:
    return any(leaf.dtype == "float64" for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array)))


def in_precision_of(model: OperatorNetwork) -> AbstractContextManager[Any]:
    """A context in which a model trained in float64 computes in float64, whatever the precision around it."""
    return jax.enable_x64(True) if is_double(model) else nullcontext()
