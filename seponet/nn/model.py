"""What all operator networks share: encoded inputs, coefficients from a branch, exact data in a lift."""

import abc
import math
from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..calculus.basis_values import BasisValues, Request
from ..calculus.lift import make_lift
from ..derivatives import MultiIndex
from ..equations.problem import Problem
from ..equations.terms import Face
from ..functions import Functions
from ..locations import Evaluable, Location
from .branch import Branch, Constant
from .coefficient_maps import Scaling
from .spectral_branch import FieldBranch
from .translation import Translation

Sensors = tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
"""What the branch sees: inputs or derivatives of them (`"u"`, `"w_x"`), and the number of sensors along each axis."""


AnyBranch = Branch | FieldBranch | Constant


class OperatorNetwork(eqx.Module):
    """s = lift(u) + sum_k beta_k(u) phi_k(y) for every field.

    - `problem`: the equation that the model is for.
    - `exact`: the axes whose conditions hold by construction.
    - `sensors`: where the branch sees the inputs.
    - `branch`: code -> one row of outputs for each function.
    - `whitening`: outputs -> coefficients, or None if they are the same.
    - `translation`: what moves inputs to a common place and solutions back, if the equation looks the same everywhere.
    """

    separable: ClassVar[bool]
    """Whether a grid is cheaper than as many scattered points."""

    problem: eqx.AbstractVar[Problem]
    exact: eqx.AbstractVar[tuple[str, ...]]
    sensors: eqx.AbstractVar[Sensors]
    branch: eqx.AbstractVar[AnyBranch]
    whitening: eqx.AbstractVar[Scaling | None]
    translation: eqx.AbstractVar[Translation | None]

    @property
    @abc.abstractmethod
    def materialised_rank(self) -> int:
        """How many basis functions are held at every place while residuals are computed."""

    @abc.abstractmethod
    def coefficient_shape(self) -> tuple[int, ...]:
        """The shape of one function's coefficients, the fields first."""

    @abc.abstractmethod
    def basis_values(self, where: Location, boundary: Location, request: Request) -> Mapping[Face | None, BasisValues]:
        """The basis functions in the interior and on faces, with the requested derivatives."""

    def encode(self, inputs: Mapping[str, Functions]) -> dict[str, Float[Array, "functions *sensors"]]:
        """The inputs at the sensors, components after the functions."""
        given = self.problem.complete(inputs)
        symbols = [self.problem.vocabulary.parse(name) for name, _ in self.sensors]
        return {
            name: sense(given[symbol.name], dict(counts), symbol.alpha)
            for symbol, (name, counts) in zip(symbols, self.sensors, strict=True)
        }

    def coefficients(self, code: Mapping[str, Array]) -> Float[Array, "functions fields *_"]:
        """The coefficients of the basis functions for each encoded input."""
        if self.translation is None:
            return self._answer(code)
        moved, turn = self.translation.align(code)
        return self.translation.restore(self._answer(moved), turn)

    def _answer(self, code: Mapping[str, Array]) -> Float[Array, "functions fields *_"]:
        outputs = self.branch(code)
        if self.whitening is not None:
            outputs = self.whitening(outputs)
        return outputs.reshape(outputs.shape[0], *self.coefficient_shape())

    def lifts(self, inputs: Mapping[str, Evaluable]) -> dict[str, Evaluable | None]:
        """For each field what carries the data of its exact conditions."""
        given = self.problem.complete(inputs)
        return {field: make_lift(self.problem, field, self.exact, given) for field in self.problem.fields}

    @property
    def size(self) -> int:
        """The number of coefficients of one function."""
        return math.prod(self.coefficient_shape())


def sense(functions: Functions, counts: Mapping[str, int], alpha: MultiIndex = ()) -> Float[Array, "functions *_"]:
    """The values of functions, or of a derivative, at uniform sensors."""
    values = functions(functions.space.sensors(counts), alpha)
    return values if functions.space.components is None else jnp.moveaxis(values, 0, 1)
