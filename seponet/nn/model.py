"""What all operator networks share: encoded inputs, coefficients from a branch, exact data in a lift."""

import abc
import math
from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..bases.fourier_grid import FourierGrid
from ..calculus.basis_values import BasisValues, Request
from ..calculus.lift import make_lift
from ..calculus.model import Sensors
from ..derivatives import MultiIndex
from ..discretise.discretisation import Discretisation
from ..equations.problem import Problem
from ..equations.terms import Face
from ..functions import Functions
from ..locations import Evaluable, Location
from .branch import AbstractBranch
from .coefficient_maps import AbstractCoefficientMap
from .translation import Translation


class OperatorNetwork(eqx.Module):
    """s = lift(u) + sum_k beta_k(u) phi_k(y) for every field, with coefficients beta from a branch: a `calculus.Model`.

    - `problem`: the equation that the model is for.
    - `exact`: the axes whose conditions hold by construction.
    - `sensors`: where the branch sees the inputs.
    - `branch`: sensor values -> one row of outputs for each function.
    - `whitening`: outputs -> coefficients, or None if they are the same.
    - `translation`: what aligns inputs along an axis and moves solutions back, if the equation is invariant to
        translations along it.

    What each method returns, with shapes, stands in `calculus/model.py`.
    """

    problem: eqx.AbstractVar[Problem]
    exact: eqx.AbstractVar[tuple[str, ...]]
    sensors: eqx.AbstractVar[Sensors]
    branch: eqx.AbstractVar[AbstractBranch]
    whitening: eqx.AbstractVar[AbstractCoefficientMap | None]
    translation: eqx.AbstractVar[Translation | None]

    @property
    @abc.abstractmethod
    def separable(self) -> bool:
        """Whether a grid is cheaper than as many scattered points."""

    @property
    @abc.abstractmethod
    def materialised_rank(self) -> int:
        """How many basis functions are held at every location while residuals are computed."""

    @property
    @abc.abstractmethod
    def has_fixed_basis(self) -> bool:
        """Whether the basis functions are known before training."""

    @property
    @abc.abstractmethod
    def discretisation(self) -> Discretisation | None:
        """The discretisation whose trial functions are the model's basis functions; None if there is none."""

    @abc.abstractmethod
    def coefficient_shape(self) -> tuple[int, ...]:
        """The shape of one function's coefficients, the fields first."""

    @abc.abstractmethod
    def basis_values(self, where: Location, boundary: Location, request: Request) -> Mapping[Face | None, BasisValues]:
        """The basis functions in the interior and on faces, with the requested derivatives."""

    @abc.abstractmethod
    def fourier_grid(self) -> FourierGrid:
        """The FFT grid of the periodic axes; a `ValueError` for a model that has none."""

    def encode(self, inputs: Mapping[str, Functions]) -> dict[str, Float[Array, "functions *sensors"]]:
        """The inputs at the sensors, components after the functions."""
        completed = self.problem.complete(inputs)
        symbols = [self.problem.vocabulary.parse(name) for name, _ in self.sensors]
        return {
            name: sense(completed[symbol.name], dict(counts), symbol.alpha)
            for symbol, (name, counts) in zip(symbols, self.sensors, strict=True)
        }

    def coefficients(self, sensor_values: Mapping[str, Array]) -> Float[Array, "functions fields *_"]:
        """The coefficients of the basis functions for inputs at the sensors."""
        if self.translation is None:
            return self._run_branch(sensor_values)
        aligned, angle = self.translation.align(sensor_values)
        return self.translation.restore(self._run_branch(aligned), angle)

    def prepare(self, sensor_values: Mapping[str, Array]) -> tuple[PyTree, Float[Array, " functions"] | None]:
        """What need not be computed again for the same functions in training: what the branch starts from, and by which
        angle each function was aligned, if it was."""
        angle = None
        if self.translation is not None:
            sensor_values, angle = self.translation.align(sensor_values)
        return self.branch.prepare(sensor_values), angle

    def compact(self, prepared: PyTree) -> Float[Array, "functions n"]:
        """Numbers that differ by as much as the coefficients of prepared functions do, in the norm of the sum of
        squares; as few as the outputs of the branch, if these are principal components."""
        outputs = self.branch.finish(prepared)
        return outputs if self.whitening is None else self.whitening.compact(outputs)

    def compress(
        self, coefficients: Float[Array, "functions fields *_"], angle: Float[Array, " functions"] | None
    ) -> Float[Array, "functions n"]:
        """What `compact` should give for functions that `prepare` has aligned by `angle`."""
        if self.translation is not None and angle is not None:
            coefficients = self.translation.restore(coefficients, -angle)
        flat = coefficients.reshape(len(coefficients), -1)
        return flat if self.whitening is None else self.whitening.compress(flat)

    def _run_branch(self, sensor_values: Mapping[str, Array]) -> Float[Array, "functions fields *_"]:
        outputs = self.branch(sensor_values)
        if self.whitening is not None:
            outputs = self.whitening(outputs)
        return outputs.reshape(outputs.shape[0], *self.coefficient_shape())

    def lifts(self, inputs: Mapping[str, Evaluable]) -> dict[str, Evaluable | None]:
        """For each field a function with the data of its exact conditions; None if it is zero."""
        completed = self.problem.complete(inputs)
        return {field: make_lift(self.problem, field, self.exact, completed) for field in self.problem.fields}

    @property
    def size(self) -> int:
        """The number of coefficients of one function."""
        return math.prod(self.coefficient_shape())


def no_fourier_grid(model: OperatorNetwork) -> ValueError:
    """The error of models that are no product of functions of one variable."""
    return ValueError(f"spectral residuals are for SepONets; got a {type(model).__name__}")


def sense(functions: Functions, counts: Mapping[str, int], alpha: MultiIndex = ()) -> Float[Array, "functions *_"]:
    """The values of functions, or of a derivative, at uniform sensors."""
    values = functions(functions.space.sensors(counts), alpha)
    return values if functions.space.components is None else jnp.moveaxis(values, 0, 1)
