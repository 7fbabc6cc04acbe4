r"""A problem on classical trial functions: what is solved for given inputs, and what a network is trained on.

$$s = \text{lift}(u) + \sum_{k_1 .. k_d} c_{k_1 .. k_d} \prod_n \phi_{n k_n}(y_n)$$

for every field, with L2-orthonormal functions of one variable: Fourier functions on periodic axes, polynomials on
which the traces of the exact conditions vanish on the others.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from ..bases.base import Basis
from ..bases.fourier_grid import FourierGrid
from ..bases.orthonormal import Orthonormal
from ..bases.polynomial import Legendre
from ..bases.quadrature import quadrature
from ..bases.trigonometric import Fourier
from ..calculus.basis_values import BasisValues, Request, separable_values
from ..calculus.decoders import Tucker
from ..calculus.kinks import smooth_lift
from ..calculus.model import Sensors
from ..calculus.projectors import make_projectors
from ..equations.problem import Problem
from ..equations.terms import Face
from ..locations import Evaluable, Location

Ranks = tuple[tuple[str, int], ...]
"""The number of trial functions along each axis."""


class Discretisation(eqx.Module):
    """The trial functions of a problem: a model (`calculus/model.py`) without a network.

    **Arguments:**

    - `problem`: the equation.
    - `exact`: the axes whose conditions hold by construction. A periodic axis always is one.
    - `ranks`: the number of functions along each axis.
    - `smoothed`: the axes along which the data of exact conditions have kinks: the lift is projected there on as many
        functions as there are trial functions and exact conditions.
    """

    problem: Problem = eqx.field(static=True)
    exact: tuple[str, ...] = eqx.field(static=True)
    ranks: Ranks = eqx.field(static=True)
    smoothed: tuple[str, ...] = eqx.field(static=True, default=())

    @classmethod
    def of(
        cls, problem: Problem, exact: Sequence[str], ranks: Mapping[str, int], smoothed: Sequence[str] = ()
    ) -> "Discretisation":
        """With ranks by the names of the axes; those of periodic axes are made odd: cosines and sines in pairs."""
        periodic = tuple(name for name, axis in problem.domain.axes if axis.periodic)
        counts = tuple((name, ranks[name] | 1 if name in periodic else ranks[name]) for name in problem.domain)
        return cls(problem, tuple(n for n in problem.domain if n in exact or n in periodic), counts, tuple(smoothed))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of functions along each axis."""
        return tuple(rank for _, rank in self.ranks)

    @property
    def bases(self) -> tuple[tuple[Basis, ...], ...]:
        """For each axis the trial functions of every field."""
        by_field = [{p.name: p for p in make_projectors(self.problem, f, self.exact)} for f in self.problem.fields]
        bases: list[tuple[Basis, ...]] = []
        for name, rank in self.ranks:
            axis = self.problem.domain.axis(name)
            family = Fourier if axis.periodic else Legendre
            traces = [projectors[name].traces if name in projectors else () for projectors in by_field]
            bases.append(tuple(Orthonormal(family, axis, rank, of_field) for of_field in traces))
        return tuple(bases)

    @property
    def sensors(self) -> Sensors:
        return ()

    @property
    def separable(self) -> bool:
        return True

    @property
    def has_fixed_basis(self) -> bool:
        return True

    @property
    def whitening(self) -> Callable[[Array], Array] | None:
        return None

    @property
    def size(self) -> int:
        return int(np.prod(self.coefficient_shape()))

    @property
    def materialised_rank(self) -> int:
        return 0

    def coefficient_shape(self) -> tuple[int, ...]:
        return (len(self.problem.fields), *self.shape)

    def basis_values(self, where: Location, boundary: Location, request: Request) -> Mapping[Face | None, BasisValues]:
        factors = [partial(_factors, bases) for bases in self.bases]
        return separable_values(self.problem.domain.names, factors, Tucker(self.shape), where, boundary, request)

    def lifts(self, inputs: Mapping[str, Evaluable]) -> Mapping[str, Evaluable | None]:
        ranks = dict(self.ranks)
        return {
            field: smooth_lift(self.problem, field, self.exact, inputs, self.smoothed, ranks)
            for field in self.problem.fields
        }

    def encode(self, inputs: Any) -> Mapping[str, Array]:
        return {}

    def coefficients(self, sensor_values: Mapping[str, Array]) -> Float[Array, "functions fields *_"]:
        raise ValueError("a discretisation has no coefficients of its own: solve for them, then use FixedCoefficients")

    def fourier_grid(self) -> FourierGrid:
        raise ValueError("spectral residuals are for trained models; a discretisation tests its residuals")

    def embedding(self, finer: "Discretisation") -> list[list[Float64[np.ndarray, "finer coarser"]]]:
        """For each axis and field the matrix from coefficients of this one to those of a finer one, which is exact:
        the spans of classical functions are nested. Its transpose is the L2-orthogonal projection back."""
        matrices: list[list[np.ndarray]] = []
        for ours, theirs in zip(self.bases, finer.bases, strict=True):
            points, weights = quadrature(ours[0].axis, ours[0].size + theirs[0].size + 4)
            matrices.append(
                [
                    large.table(points)[0].T @ (weights[:, None] * small.table(points)[0])
                    for small, large in zip(ours, theirs, strict=True)
                ]
            )
        return matrices


def apply_along(
    matrices: Sequence[Sequence[np.ndarray]], coefficients: Float64[np.ndarray, "functions fields *_"], *, back: bool
) -> Float64[np.ndarray, "functions fields *_"]:
    """Coefficients times the matrix of each axis and field, or its transpose (`back`)."""
    fields: list[np.ndarray] = []
    for field in range(coefficients.shape[1]):
        values = coefficients[:, field]
        for axis, of_axis in enumerate(matrices, start=1):
            matrix = of_axis[field]
            values = np.moveaxis(np.tensordot(values, matrix, ((axis,), (0 if back else 1,))), -1, axis)
        fields.append(values)
    return np.stack(fields, axis=1)


def prolong(
    coarse: Discretisation, fine: Discretisation, coefficients: Float64[np.ndarray, "functions fields *_"]
) -> Float64[np.ndarray, "functions fields *_"]:
    """The same functions (or their projections, along axes where `fine` is the coarser one) in another basis."""
    return apply_along(coarse.embedding(fine), coefficients, back=False)


def _factors(bases: tuple[Basis, ...], points: Float[Array, " n"], order: int) -> Float[Array, "orders fields rank n"]:
    return jnp.stack([jnp.swapaxes(basis(points, order), 1, 2) for basis in bases], axis=1)
