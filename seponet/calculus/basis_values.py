"""The basis functions of a model at a location, with derivatives, ready to be contracted with coefficients.

Two kinds exist:

- `SeparableValues`: products of one-dimensional factors. One Taylor pass per axis gives every order that any equation
  or condition needs along it; a multi-index picks one order per axis. A face has one point along its axis and shares
  the factors of all the others.
- `JointValues`: functions of all coordinates (DeepONet), one array per multi-index.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from ..bases.base import as_constant
from ..derivatives import MultiIndex, order_along
from ..equations.terms import Face, Term
from ..locations import Evaluable, Grid, Location
from .decoder import AbstractDecoder

Request = Mapping[Face | None, frozenset[MultiIndex]]
"""The derivatives needed in the interior (None) and on each face."""

WeightedLocations = Sequence[tuple[float, Location]]
"""Weighted locations: one, or the two sides of a jump."""

Weighted = Sequence[tuple[float, MultiIndex]]
"""A combination of derivatives of one field."""


class Factors(NamedTuple):
    """The basis functions of a model as arrays.

    - `owner`: what the first axis of each array counts: each "field" or each "potential" has functions of its own.
    - `values`: for the axes of the domain, one by one or all together, the functions of these, `[owners, k, *points]`.
    """

    owner: Literal["field", "potential"]
    values: Mapping[tuple[str, ...], Float[Array, "owners k *points"]]


@runtime_checkable
class BasisValues(Protocol):
    """The basis functions of a model at one location, ready to be contracted with coefficients."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the location: `[n_1, ..., n_d]` of a grid, `[n]` of points."""
        ...

    def contract(self, coefficients: Array, field: int, combination: Weighted) -> Array:
        """sum_k beta_k (sum of weight * derivative of phi_k): `[functions, *shape]`."""
        ...

    def flops(self, field: int, combination: Weighted) -> int:
        """Floating point operations of a contraction for one function."""
        ...

    def split(self, axis: int = 0) -> tuple[tuple[Array, ...], "BasisValues"]:
        """The arrays that depend on the points along one axis of the location, with these points as their leading
        axis; and the basis values without them, to be joined with a slab of the points."""
        ...

    def join(self, rows: tuple[Array, ...], axis: int = 0) -> "BasisValues":
        """The inverse of `split`, from any slab along the axis."""
        ...

    def ranks(self) -> tuple[int, ...] | None:
        """The number of factors along each axis; None if the basis functions are no products of factors."""
        ...

    def factors(self, names: tuple[str, ...]) -> "Factors | None":
        """The basis functions themselves, for pictures; None if they are never held, but evaluated for each input.

        **Arguments:**

        - `names`: the axes of the domain.
        """
        ...


class SeparableValues(eqx.Module):
    """Products of one-dimensional factors.

    **Arguments:**

    - `names`: the axes.
    - `tables`: for each axis all derivatives of all factors, `[orders, fields, rank, points]`.
    - `decoder`: what combines them.
    - `grid`: whether the points of the axes are combined as a tensor product or one by one.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    tables: tuple[Float[Array, "_ fields _ _"] | None, ...]
    decoder: AbstractDecoder = eqx.field(static=True)
    grid: bool = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        sizes = tuple(table.shape[-1] for table in self.tables if table is not None)
        return sizes if self.grid else sizes[:1]

    def contract(self, coefficients: Array, field: int, combination: Weighted) -> Array:
        terms = [(c, tuple(order_along(alpha, name) for name in self.names)) for c, alpha in combination]
        return self.decoder.contract(
            coefficients[:, field], [table[:, field] for table in self.tables if table is not None], terms, self.grid
        )

    def flops(self, field: int, combination: Weighted) -> int:
        terms = [(c, tuple(order_along(alpha, name) for name in self.names)) for c, alpha in combination]
        return self.decoder.flops(self.shape, terms)

    def split(self, axis: int = 0) -> tuple[tuple[Array, ...], "SeparableValues"]:
        moving = slice(axis, axis + 1) if self.grid else slice(None)
        rows = tuple(jnp.moveaxis(table, -1, 0) for table in self.tables[moving] if table is not None)
        return rows, self._with((None,) * len(rows), axis)

    def join(self, rows: tuple[Array, ...], axis: int = 0) -> "SeparableValues":
        return self._with(tuple(jnp.moveaxis(r, 0, -1) for r in rows), axis)

    def ranks(self) -> tuple[int, ...]:
        return tuple(table.shape[-2] for table in self.tables if table is not None)

    def factors(self, names: tuple[str, ...]) -> Factors:
        tables = zip(names, self.tables, strict=True)
        return Factors("field", {(name,): table[0] for name, table in tables if table is not None})

    def _with(self, tables: tuple[Array | None, ...], axis: int) -> "SeparableValues":
        replaced = (*self.tables[:axis], *tables, *self.tables[axis + len(tables) :])
        return SeparableValues(self.names, replaced, self.decoder, self.grid)


class JointValues(eqx.Module):
    """Functions of all coordinates.

    **Arguments:**

    - `alphas`, `tables`: the multi-indices and for each the derivative of all functions, `[fields, rank, *shape]`.
    """

    alphas: tuple[MultiIndex, ...] = eqx.field(static=True)
    tables: tuple[Float[Array, "fields rank *shape"], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tables[0].shape[2:]

    def contract(self, coefficients: Array, field: int, combination: Weighted) -> Array:
        basis = weighted_sum((c, self.tables[self.alphas.index(alpha)][field]) for c, alpha in combination)
        rows = basis.reshape(basis.shape[0], -1)
        return jnp.matmul(coefficients[:, field], rows, precision="highest").reshape(-1, *self.shape)

    def flops(self, field: int, combination: Weighted) -> int:
        return 2 * self.tables[0].shape[1] * math.prod(self.shape)

    def split(self, axis: int = 0) -> tuple[tuple[Array, ...], "JointValues"]:
        return tuple(jnp.moveaxis(table, 2 + axis, 0) for table in self.tables), JointValues(self.alphas, ())

    def join(self, rows: tuple[Array, ...], axis: int = 0) -> "JointValues":
        return JointValues(self.alphas, tuple(jnp.moveaxis(r, 0, 2 + axis) for r in rows))

    def ranks(self) -> None:
        return None

    def factors(self, names: tuple[str, ...]) -> Factors:
        return Factors("field", {names: self.tables[self.alphas.index(())]})


def requested_derivatives(terms: Sequence[Term]) -> dict[Face | None, frozenset[MultiIndex]]:
    """The derivatives that terms need in the interior and on each face: one Taylor pass then computes all of them."""
    wanted: dict[Face | None, frozenset[MultiIndex]] = {}
    for term in terms:
        alphas = frozenset(symbol.alpha for symbol in term.expression.fields)
        wanted[term.face] = wanted.get(term.face, frozenset()) | alphas
    return wanted


def weighted_locations(face: Face | None, where: Location) -> WeightedLocations:
    """The weighted locations that make a face; the interior is one with weight 1."""
    if face is None:
        return [(1.0, where)]
    return [(weight, where.fix(face.axis, node)) for node, weight in zip(face.nodes, face.weights, strict=True)]


def separable_values(
    names: tuple[str, ...],
    trunks: Sequence[Callable[[Array, int], Float[Array, "orders fields rank n"]]],
    decoder: AbstractDecoder,
    where: Location,
    boundary: Location,
    request: Request,
) -> dict[Face | None, SeparableValues]:
    """The factors of every axis in the interior and on faces, by one Taylor pass per axis over all points together.

    **Arguments:**

    - `names`, `trunks`: the axes, and for each the map from (points, order) to the derivatives of its factors.
    - `decoder`: what combines the factors.
    - `where`, `boundary`: the locations of the interior, and those that are projected on faces.
    - `request`: the derivatives needed in the interior (None) and on each face.
    """
    grid = isinstance(where, Grid)
    shared = boundary is where
    tables: list[Array] = []
    along_faces: list[Array] = []
    at_nodes: list[dict[float, Array]] = []
    for name, trunk in zip(names, trunks, strict=True):
        highest = max((order_along(alpha, name) for alphas in request.values() for alpha in alphas), default=0)
        nodes = tuple(
            dict.fromkeys(n for face in request if face is not None and face.axis == name for n in face.nodes)
        )
        inside, outside = where[name], boundary[name]
        parts = [inside, np.asarray(nodes, inside.dtype)] + ([] if shared else [outside])
        table = trunk(_joined(parts), highest)
        n = inside.shape[0]
        tables.append(table[..., :n])
        at_nodes.append({node: table[..., n + i : n + i + 1] for i, node in enumerate(nodes)})
        along_faces.append(table[..., :n] if shared else table[..., n + len(nodes) :])
    values: dict[Face | None, SeparableValues] = {}
    for face in request:
        if face is None:
            values[face] = SeparableValues(names, tuple(tables), decoder, grid)
            continue
        normal = names.index(face.axis)
        # One point along the normal of the face, and the points of the boundary along the other axes.
        across = weighted_sum((w, at_nodes[normal][node]) for node, w in zip(face.nodes, face.weights, strict=True))
        if not isinstance(boundary, Grid):
            across = jnp.broadcast_to(across, (*across.shape[:-1], boundary.shape[0]))
        values[face] = SeparableValues(
            names,
            tuple(across if i == normal else along for i, along in enumerate(along_faces)),
            decoder,
            isinstance(boundary, Grid),
        )
    return values


def _joined(parts: Sequence[Any]) -> Array:
    """One array of points: a constant of a traced program if all parts are, so that classical bases are tabulated."""
    if any(isinstance(part, Tracer) for part in parts):
        return jnp.concatenate(parts)
    return as_constant(np.concatenate([np.asarray(part) for part in parts]))


def joint_values(
    evaluators: Sequence[Evaluable], where: Location, boundary: Location, request: Request
) -> dict[Face | None, JointValues]:
    """The derivatives of functions of all coordinates; one evaluator per field."""
    values: dict[Face | None, JointValues] = {}
    for face, alphas in request.items():
        locations = weighted_locations(face, where if face is None else boundary)
        multi_indices = tuple(sorted(alphas))
        tables = tuple(
            jnp.stack([weighted_sum((w, field(location, alpha)) for w, location in locations) for field in evaluators])
            for alpha in multi_indices
        )
        values[face] = JointValues(multi_indices, tables)
    return values


def weighted_sum(parts: Iterable[tuple[float, Array]]) -> Array:
    return reduce(add, [value if weight == 1.0 else weight * value for weight, value in parts])
