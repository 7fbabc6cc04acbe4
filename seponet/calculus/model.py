"""What a model is: the one description that the calculus, losses, operators and training go by."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Float

from ..bases.fourier_grid import FourierGrid
from ..equations.problem import Problem
from ..equations.terms import Face
from ..locations import Evaluable, Location
from .basis_values import BasisValues, Request

Sensors = tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
"""The sensors of a model: names of inputs or of derivatives of them (`"u"`, `"w_x"`), each with the number of uniform
sensors along every axis that it depends on."""


@runtime_checkable
class Model(Protocol):
    """s = lift(u) + sum_k beta_k(u) phi_k(y) for every field: a linear combination of basis functions phi_k, which all
    input functions share, with coefficients beta_k that depend on the input function.

    `nn.OperatorNetwork` implements it with trunks (phi) and a branch (beta).
    """

    @property
    def problem(self) -> Problem:
        """The equation that the model is for."""
        ...

    @property
    def exact(self) -> tuple[str, ...]:
        """The axes whose conditions hold by construction: the lift carries their data, and phi_k has zero data."""
        ...

    @property
    def sensors(self) -> Sensors:
        """The sensors at which `encode` evaluates the inputs."""
        ...

    @property
    def separable(self) -> bool:
        """Whether phi_k is a product of functions of one variable, so that a grid is cheaper than as many points."""
        ...

    @property
    def has_fixed_basis(self) -> bool:
        """Whether phi_k is known before training, so that only the coefficients are learned."""
        ...

    @property
    def whitening(self) -> Callable[[Array], Array] | None:
        """The linear map `[functions, size] -> [functions, size]` that makes coefficients from the branch's outputs;
        None if they are the same."""
        ...

    @property
    def size(self) -> int:
        """The number of coefficients of one function, those of all fields together."""
        ...

    @property
    def materialised_rank(self) -> int:
        """How many basis functions are held at every location while residuals are computed."""
        ...

    def coefficient_shape(self) -> tuple[int, ...]:
        """The shape of one function's coefficients, `[fields, *_]`; `[potentials, *_]` if fields come from these."""
        ...

    def basis_values(self, where: Location, boundary: Location, request: Request) -> Mapping[Face | None, BasisValues]:
        """The basis functions and their derivatives at locations.

        **Arguments:**

        - `where`, `boundary`: the locations of the interior, and those that are projected on faces.
        - `request`: the derivatives needed in the interior (None) and on each face.

        **Returns:** one `BasisValues` for each entry of `request`.
        """
        ...

    def lifts(self, inputs: Mapping[str, Evaluable]) -> Mapping[str, Evaluable | None]:
        """For each field a function `[functions, *shape]` with the data of its exact conditions; None if it is zero."""
        ...

    def encode(self, inputs: Any) -> Mapping[str, Array]:
        """The inputs at the sensors, `[functions, *components, *sensors]` each."""
        ...

    def coefficients(self, sensor_values: Mapping[str, Array]) -> Float[Array, "functions fields *_"]:
        """The coefficients `[functions, *coefficient_shape()]` for the values that `encode` gives at the sensors."""
        ...

    def fourier_grid(self) -> FourierGrid:
        """The FFT grid of the periodic axes: as many points along each as the core has (nodal trunks), or as a Fourier
        trunk has functions, rounded up to odd. A `ValueError` says why a model has none."""
        ...


class FixedCoefficients(eqx.Module):
    """A model whose coefficients are given instead of computed from inputs, and perhaps its basis values too.

    The calculus and the losses take a model and ask it for coefficients. Three callers have them already: training
    computes them once a step and needs them besides the loss; refinement changes them; a compiled prediction also has
    the basis values of its grid. They hand over this object, which answers every other question as `model` does.

    **Arguments:**

    - `model`: whose basis functions and lift.
    - `known_coefficients`: those of each function.
    - `known_basis`: the basis functions in the interior, where the solution is wanted; None computes them.
    """

    model: Model
    known_coefficients: Float[Array, "functions fields *_"]
    known_basis: BasisValues | None = None

    @property
    def problem(self) -> Problem:
        return self.model.problem

    @property
    def exact(self) -> tuple[str, ...]:
        return self.model.exact

    @property
    def sensors(self) -> Sensors:
        return self.model.sensors

    @property
    def separable(self) -> bool:
        return self.model.separable

    @property
    def has_fixed_basis(self) -> bool:
        return self.model.has_fixed_basis

    @property
    def whitening(self) -> Callable[[Array], Array] | None:
        return self.model.whitening

    @property
    def size(self) -> int:
        return self.model.size

    @property
    def materialised_rank(self) -> int:
        return self.model.materialised_rank

    def coefficient_shape(self) -> tuple[int, ...]:
        return self.model.coefficient_shape()

    def basis_values(self, where: Location, boundary: Location, request: Request) -> Mapping[Face | None, BasisValues]:
        if self.known_basis is not None:
            return {None: self.known_basis}
        return self.model.basis_values(where, boundary, request)

    def lifts(self, inputs: Mapping[str, Evaluable]) -> Mapping[str, Evaluable | None]:
        return self.model.lifts(inputs)

    def encode(self, inputs: Mapping[str, Evaluable]) -> Mapping[str, Array]:
        """No values at sensors: the coefficients are known, so no input is evaluated."""
        return {}

    def coefficients(self, sensor_values: Mapping[str, Array]) -> Float[Array, "functions fields *_"]:
        return self.known_coefficients

    def fourier_grid(self) -> FourierGrid:
        return self.model.fourier_grid()
