"""Solutions that were refined, ready to be evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import xarray as xr
from jaxtyping import Array

from .functions import Functions
from .solution import in_precision_of

if TYPE_CHECKING:
    from .operator import Operator


class Refined:
    """Solutions that were refined one by one.

    - `coefficients`: of the basis functions.
    - `before`, `after`: root mean square residuals on the refinement's quadrature grid, as `Operator.residual`.
    """

    def __init__(
        self,
        operator: Operator,
        inputs: dict[str, Functions],
        count: int | None,
        coefficients: Array,
        before: xr.Dataset,
        after: xr.Dataset,
    ) -> None:
        self.operator, self.coefficients, self.before, self.after = operator, coefficients, before, after
        self._inputs, self._count = inputs, count

    def predict(self, **where: Any) -> xr.DataArray | xr.Dataset:
        """The refined solutions; arguments as for `Operator.predict`, without the inputs."""
        view = self.operator.on(**where)
        with in_precision_of(self.operator.model):
            return view.label(view.compute(self._inputs, self._count or 1, self.coefficients), self._count)
