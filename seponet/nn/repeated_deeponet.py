"""The deep operator network as the paper benchmarks it: every point repeated for every function."""

import math
from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..bases.fourier_grid import FourierGrid
from ..calculus.basis_values import Request, weighted_locations
from ..calculus.model import Sensors
from ..derivatives import MultiIndex
from ..equations.problem import Problem
from ..equations.terms import Face
from ..locations import Grid, Location, Points
from .branch import AbstractBranch
from .coefficient_maps import AbstractCoefficientMap
from .model import OperatorNetwork, no_fourier_grid
from .translation import Translation


class RepeatedDeepONet(OperatorNetwork):
    """`DeepONet` as the paper benchmarks it: every point repeated for every function, reverse-mode derivatives.

    It is here to be compared with: its cost is that of one trunk evaluation, and one backward pass per derivative, for
    each *pair* of a function and a point. Its conditions are always soft.
    """

    problem: Problem = eqx.field(static=True)
    exact: tuple[str, ...] = eqx.field(static=True)
    sensors: Sensors = eqx.field(static=True)
    branch: AbstractBranch
    trunk: Callable[[Array], Array]
    rank: int = eqx.field(static=True)
    whitening: AbstractCoefficientMap | None = None
    translation: Translation | None = None

    def __check_init__(self) -> None:
        if self.exact:
            raise ValueError(f"RepeatedDeepONet imposes conditions softly only; got exact={self.exact}. Use DeepONet.")

    @property
    def separable(self) -> bool:
        return False

    @property
    def materialised_rank(self) -> int:
        return len(self.problem.fields) * self.rank

    @property
    def has_fixed_basis(self) -> bool:
        return False

    @property
    def discretisation(self) -> None:
        return None

    def coefficient_shape(self) -> tuple[int, ...]:
        return (len(self.problem.fields), self.rank)

    def fourier_grid(self) -> FourierGrid:
        raise no_fourier_grid(self)

    def basis_values(
        self, where: Location, boundary: Location, request: Request
    ) -> Mapping[Face | None, "RepeatedValues"]:
        values: dict[Face | None, RepeatedValues] = {}
        for face in request:
            locations = weighted_locations(face, where if face is None else boundary)
            points = tuple(p.mesh() if isinstance(p, Grid) else p for _, p in locations)
            values[face] = RepeatedValues(self.trunk, points, tuple(w for w, _ in locations), locations[0][1].shape)
        return values


class RepeatedValues(eqx.Module):
    """Points to be repeated for every function, together with the trunk that will be evaluated there.

    **Arguments:**

    - `trunk`: a network `[..., axes] -> [..., fields * rank]`.
    - `points`, `weights`: weighted points, one set of them or the two sides of a jump.
    - `shape`: of the location.
    """

    trunk: Callable[[Array], Array]
    points: tuple[Points, ...]
    weights: tuple[float, ...] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def contract(self, coefficients: Array, field: int, combination: Sequence[tuple[float, MultiIndex]]) -> Array:
        functions, fields, rank = coefficients.shape
        total = jnp.zeros((functions, *self.shape), coefficients.dtype)
        for weight, local in zip(self.weights, self.points, strict=True):
            repeated = tuple(jnp.broadcast_to(p[None], (functions, p.shape[0])) for p in local.points)

            def solution(*y: Array) -> Array:
                basis = self.trunk(jnp.stack(y, axis=-1)).reshape(*y[0].shape, fields, rank)[:, :, field]
                return jnp.einsum("fr,fpr->fp", coefficients[:, field], basis, precision="highest")

            for c, alpha in combination:
                derivative = solution
                for name, m in alpha:
                    for _ in range(m):
                        derivative = _reverse(derivative, local.names.index(name))
                total = total + weight * c * derivative(*repeated).reshape(total.shape)
        return total

    def flops(self, field: int, combination: Sequence[tuple[float, MultiIndex]]) -> int:
        # A pass through the trunk for every pair of a function and a point, about tripled by each derivative.
        passes = sum(3 ** sum(m for _, m in alpha) for _, alpha in combination)
        return 2 * _weights(self.trunk) * math.prod(self.shape) * passes * len(self.points)

    def split(self, axis: int = 0) -> tuple[tuple[Array, ...], "RepeatedValues"]:
        names = self.points[0].names
        rows = tuple(jnp.moveaxis(p.reshape(self.shape), axis, 0) for local in self.points for p in local.points)
        return rows, RepeatedValues(self.trunk, (Points(names, ()),) * len(self.points), self.weights, ())

    def join(self, rows: tuple[Array, ...], axis: int = 0) -> "RepeatedValues":
        names, axes = self.points[0].names, len(self.points[0].names)
        laid = tuple(jnp.moveaxis(r, 0, axis) for r in rows)
        flat = tuple(r.reshape(-1) for r in laid)
        points = tuple(Points(names, flat[i * axes : (i + 1) * axes]) for i in range(len(self.points)))
        return RepeatedValues(self.trunk, points, self.weights, laid[0].shape)

    def ranks(self) -> None:
        return None

    def factors(self, names: tuple[str, ...]) -> None:
        return None


def _weights(trunk: Callable[[Array], Array]) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(trunk, eqx.is_inexact_array)))


def _reverse(function: Callable[..., Array], axis: int) -> Callable[..., Array]:
    """The derivative along one coordinate of a function that acts on every entry by itself, in reverse mode."""

    def derivative(*y: Array) -> Array:
        value, pull = jax.vjp(lambda moving: function(*y[:axis], moving, *y[axis + 1 :]), y[axis])
        return pull(jnp.ones_like(value))[0]

    return derivative
