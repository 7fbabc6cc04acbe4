"""One model with coefficients of its own: what refinement changes and what tables are contracted with."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Float

from ..equations.problem import Problem
from ..equations.terms import Face
from ..locations import Evaluable, Location
from .basis_values import BasisValues, Request


@runtime_checkable
class Model(Protocol):
    """An operator network, as the calculus sees it; see `nn/model.py`."""

    @property
    def problem(self) -> Problem: ...

    @property
    def exact(self) -> tuple[str, ...]: ...

    def basis_values(
        self, where: Location, boundary: Location, request: Request
    ) -> Mapping[Face | None, BasisValues]: ...

    def lifts(self, inputs: Mapping[str, Evaluable]) -> Mapping[str, Evaluable | None]: ...

    def encode(self, inputs: Any) -> Mapping[str, Array]: ...

    def coefficients(self, code: Mapping[str, Array]) -> Float[Array, "functions fields *_"]: ...


class FixedCoefficients(eqx.Module):
    """A model whose branch has already spoken, and perhaps its trunks too. Calculus and loss take it for a model.

    **Arguments:**

    - `model`: whose basis functions and lift.
    - `given`: the coefficients of each function.
    - `table`: the basis functions where the solution is wanted; None computes them.
    """

    model: Model
    given: Float[Array, "functions fields *_"]
    table: BasisValues | None = None

    @property
    def problem(self) -> Problem:
        return self.model.problem

    @property
    def exact(self) -> tuple[str, ...]:
        return self.model.exact

    def basis_values(self, where: Location, boundary: Location, request: Request) -> Mapping[Face | None, BasisValues]:
        return self.model.basis_values(where, boundary, request) if self.table is None else {None: self.table}

    def lifts(self, inputs: Mapping[str, Evaluable]) -> Mapping[str, Evaluable | None]:
        return self.model.lifts(inputs)

    def encode(self, inputs: Mapping[str, Evaluable]) -> Mapping[str, Array]:
        return {}

    def coefficients(self, code: Mapping[str, Array]) -> Float[Array, "functions fields *_"]:
        return self.given
