"""Accuracy on demand: the coefficients of single functions are improved, started from the network's answer.

Where the basis allows it, by Newton's method on tested residuals (`tested_newton.py`); otherwise by Gauss-Newton on the
strong ones (`gauss_newton.py`). A small residual on one grid says little about what lies between its nodes, so the
result is judged on another one, and given back only if it is better there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Float64

from .._numbers import real, whole
from .._precision import double_precision, in_precision_of
from ..calculus.collocation import Nodes
from ..discretise.discretisation import Discretisation
from ..functions import Functions
from ..nn.model import OperatorNetwork
from .gauss_newton import METHODS, gauss_newton, mean_squares, to_double
from .nodes import choose_nodes, finer_nodes, given_nodes
from .tested_newton import discretisation_of, tested_errors, tested_newton

if TYPE_CHECKING:
    from .operator import Operator

logger = logging.getLogger(__name__)

RESIDUALS = ("tested", "strong")

MOST_STEPS, LARGEST_WEIGHT = 1000, 1e12
"""Bounds of what is asked for, beyond which it is a mistake."""
"""What is made small: integrals of the residual times test functions, or its mean square."""


@dataclass(frozen=True)
class Outcome:
    """Coefficients before they are judged.

    - `coefficients`: the refined ones.
    - `before`, `after`: mean squared residuals on the refinement's grid.
    - `start_errors`, `errors`: how wrong the first and the refined coefficients are, on a finer grid.
    """

    coefficients: Float64[np.ndarray, "functions fields *_"]
    before: Float64[np.ndarray, "terms functions"]
    after: Float64[np.ndarray, "terms functions"]
    start_errors: Float64[np.ndarray, " functions"]
    errors: Float64[np.ndarray, " functions"]


@dataclass(frozen=True)
class Refinement:
    """How coefficients are improved. For the arguments, see `Operator.refine`."""

    steps: int
    nodes: Mapping[str, int] | None
    residual: str | None
    weights: Mapping[str, float]
    method: str | None
    memory: int

    def __post_init__(self) -> None:
        for name, value, choices in (("residual", self.residual, RESIDUALS), ("method", self.method, METHODS)):
            if value not in (None, *choices):
                raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
        whole("steps", self.steps, 0, MOST_STEPS)
        for name, weight in self.weights.items():
            real(f"weights[{name!r}]", weight, 0, LARGEST_WEIGHT)
        if self.residual == "tested" and (self.method or self.weights):
            raise ValueError(
                'method and weights are for residual = "strong"; tested residuals are as many as the coefficients, so '
                "weights change nothing, and whether they are factorised follows from their number: leave both out"
            )

    def __call__(
        self, model: OperatorNetwork, inputs: Mapping[str, Functions], start: Float[Array, "functions fields *_"]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For every function the better of the refined coefficients and `start`, and the mean squared residuals
        `[terms, functions]` before and after."""
        terms = [term.name for term in model.problem.terms(model.exact)]
        unknown = sorted(set(self.weights) - set(terms))
        if unknown:
            raise ValueError(f"weights are for {', '.join(terms)}; got {', '.join(unknown)}")
        discretisation = self._discretisation(model)
        resolving = choose_nodes(model, inputs, discretisation.ranks if discretisation else None)
        nodes = resolving if self.nodes is None else given_nodes(model, self.nodes)
        # Nodes that the user gives may see less of the inputs than the judge has to.
        judge = finer_nodes(nodes, resolving)
        with double_precision():
            model, inputs, first = to_double(model), to_double(dict(inputs)), np.asarray(start, np.float64)
            if self.steps == 0:
                before = mean_squares(model, inputs, nodes, first, self.memory)
                return first, before, before
            if discretisation is None:
                outcome = self._strong(model, nodes, judge, inputs, first)
            else:
                outcome = self._tested(discretisation, nodes, judge, inputs, first)
        # Whatever is not finite is no improvement.
        better = (outcome.errors < outcome.start_errors) & np.all(np.isfinite(outcome.after), axis=0)
        if not np.all(better):
            logger.warning(
                "the network's answer was kept for %d of %d functions: on a finer grid the refined one is not better",
                np.sum(~better),
                len(better),
            )
        chosen = np.where(better.reshape(-1, *(1,) * (first.ndim - 1)), outcome.coefficients, first)
        return chosen, outcome.before, np.where(better[None], outcome.after, outcome.before)

    def _discretisation(self, model: OperatorNetwork) -> Discretisation | None:
        """What residuals are tested in; None for the strong ones."""
        if self.residual == "strong" or self.method or self.weights:
            return None
        discretisation = discretisation_of(model)
        if discretisation is None and self.residual == "tested":
            raise ValueError(
                'residual = "tested" needs a SepONet with a Tucker decoder and classical trunks (Fourier functions on '
                "periodic axes, Legendre on others) with more functions along an axis than it has soft conditions; "
                'take residual = "strong"'
            )
        return discretisation

    def _tested(
        self,
        discretisation: Discretisation,
        nodes: Nodes,
        judge: Nodes,
        inputs: Mapping[str, Functions],
        first: np.ndarray,
    ) -> Outcome:
        refined = tested_newton(discretisation, nodes, inputs, first, self.steps, self.memory)
        before, after = (mean_squares(discretisation, inputs, nodes, c, self.memory) for c in (first, refined))
        errors = tested_errors(discretisation, judge, inputs, (first, refined), self.memory)
        return Outcome(refined, before, after, *errors)

    def _strong(
        self,
        model: OperatorNetwork,
        nodes: Nodes,
        judge: Nodes,
        inputs: Mapping[str, Functions],
        first: np.ndarray,
    ) -> Outcome:
        refined, before, after = gauss_newton(
            model, inputs, jnp.asarray(first), self.weights, nodes, self.steps, self.memory, self.method
        )
        weights = np.asarray([self.weights.get(term.name, 1.0) for term in model.problem.terms(model.exact)])
        errors = [weights @ mean_squares(model, inputs, judge, c, self.memory) for c in (first, refined)]
        return Outcome(refined, before, after, *errors)


class Refined:
    """Refined solutions: the coefficients of each function, and its residuals before and after.

    - `coefficients`: those of the basis functions, `[functions, fields, *_]`.
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
        evaluator = self.operator.compile(**where)
        with in_precision_of(self.operator.model):
            values = evaluator.compute(self._inputs, self._count or 1, self.coefficients)
            return evaluator.label(values, self._count, self._inputs)
