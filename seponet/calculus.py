"""Residuals of a problem for a model: derivatives are asked for first, then delivered together.

A model is, for every location, a set of basis functions shared by all input functions, times coefficients that depend
on the input: s = lift + sum_k beta_k(u) phi_k(y). So a derivative of s is a contraction of the coefficients with a
derivative of the basis functions. Two kinds of basis functions exist:

- `Separable`: products of one-dimensional factors. One Taylor pass per axis gives every order that any equation or
  condition needs along it; a multi-index picks one order per axis. A face has one point along its axis and shares the
  factors of all the others.
- `Joint`: functions of all coordinates (DeepONet), one array per multi-index.

Only this module, and the sampler, know a grid from points.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .conditions import Face, Term
from .constraints import Evaluator, value_of
from .domain import MultiIndex, order
from .expression import Symbol
from .fusion import Combination, fuse
from .locations import Grid, Where
from .problem import Problem

Request = Mapping[Face | None, frozenset[MultiIndex]]
"""The derivatives needed in the interior (None) and on each face."""

Weighted = Sequence[tuple[float, MultiIndex]]
"""A combination of derivatives of one field."""


@runtime_checkable
class Features(Protocol):
    """The basis functions of a model at one location, ready to be contracted with coefficients."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def contract(self, coefficients: Array, field: int, combination: Weighted) -> Array:
        """sum_k beta_k (sum of weight * derivative of phi_k): `[functions, *shape]`."""
        ...

    def split(self) -> tuple[Array | tuple[Array, ...], Callable[[Array | tuple[Array, ...]], "Features"]]:
        """The arrays with the rows (first axis of the location) leading, and the way back from a slab of rows."""
        ...


@runtime_checkable
class Decoder(Protocol):
    """How coefficients and one-dimensional factors make a field; see `nn/decoders.py`."""

    def contract(
        self,
        coefficients: Array,
        tables: Sequence[Float[Array, "_ _ _"]],
        terms: Sequence[tuple[float, tuple[int, ...]]],
        grid: bool,
    ) -> Float[Array, "functions *shape"]: ...


class Separable(eqx.Module):
    """Products of one-dimensional factors.

    **Arguments:**

    - `names`: the axes.
    - `tables`: for each axis all derivatives of all factors, `[orders, fields, rank, points]`.
    - `decoder`: what combines them.
    - `grid`: whether the points of the axes are combined as a tensor product or one by one.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    tables: tuple[Float[Array, "_ fields _ _"], ...]
    decoder: Decoder = eqx.field(static=True)
    grid: bool = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        sizes = tuple(table.shape[-1] for table in self.tables)
        return sizes if self.grid else sizes[:1]

    def contract(self, coefficients: Array, field: int, combination: Weighted) -> Array:
        terms = [(c, tuple(order(alpha, name) for name in self.names)) for c, alpha in combination]
        return self.decoder.contract(coefficients[:, field], [table[:, field] for table in self.tables], terms, self.grid)

    def split(self) -> tuple[tuple[Array, ...], Callable[..., "Separable"]]:
        moving = 1 if self.grid else len(self.tables)

        def join(rows: tuple[Array, ...]) -> Separable:
            slabs = tuple(jnp.moveaxis(r, 0, -1) for r in rows)
            return Separable(self.names, (*slabs, *self.tables[moving:]), self.decoder, self.grid)

        return tuple(jnp.moveaxis(table, -1, 0) for table in self.tables[:moving]), join


class Joint(eqx.Module):
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
        basis = _total((c, self.tables[self.alphas.index(alpha)][field]) for c, alpha in combination)
        rows = basis.reshape(basis.shape[0], -1)
        return jnp.matmul(coefficients[:, field], rows, precision="highest").reshape(-1, *self.shape)

    def split(self) -> tuple[tuple[Array, ...], Callable[..., "Joint"]]:
        def join(rows: tuple[Array, ...]) -> Joint:
            return Joint(self.alphas, tuple(jnp.moveaxis(r, 0, 2) for r in rows))

        return tuple(jnp.moveaxis(table, 2, 0) for table in self.tables), join


@runtime_checkable
class Model(Protocol):
    """An operator network, as the calculus sees it; see `nn/model.py`."""

    @property
    def problem(self) -> Problem: ...

    @property
    def exact(self) -> tuple[str, ...]: ...

    def features(self, where: Where, boundary: Where, request: Request) -> Mapping[Face | None, Features]: ...

    def lifts(self, inputs: Mapping[str, Evaluator]) -> Mapping[str, Evaluator | None]: ...

    def encode(self, inputs: Mapping[str, Evaluator]) -> Mapping[str, Array]: ...

    def coefficients(self, code: Mapping[str, Array]) -> Float[Array, "functions fields *_"]: ...


def request_of(terms: Sequence[Term]) -> dict[Face | None, frozenset[MultiIndex]]:
    """The derivatives that terms need, collected before anything is computed."""
    wanted: dict[Face | None, frozenset[MultiIndex]] = {}
    for term in terms:
        alphas = frozenset(symbol.alpha for symbol in term.expression.fields)
        wanted[term.face] = wanted.get(term.face, frozenset()) | alphas
    return wanted


def places_of(face: Face | None, where: Where) -> list[tuple[float, Where]]:
    """The weighted locations that make a face; the interior is one with weight 1."""
    if face is None:
        return [(1.0, where)]
    return [(weight, where.fix(face.axis, node)) for node, weight in zip(face.nodes, face.weights, strict=True)]


def evaluate_term(
    term: Term,
    fields: Sequence[str],
    coefficients: Array,
    features: Features,
    places: Sequence[tuple[float, Where]],
    inputs: Mapping[str, Evaluator],
    lifts: Mapping[str, Evaluator | None],
) -> Float[Array, "functions *shape"]:
    """One residual at one location (or the weighted sum over several, for a jump)."""
    shape = (coefficients.shape[0], *features.shape)
    others = {
        symbol: _total((w, value_of(symbol, inputs, where)) for w, where in places)
        for symbol in term.expression.symbols
        if symbol.kind != "field"
    }
    shapes = {s: others[s].shape if s in others else shape for s in term.expression.symbols}
    fused = fuse(term.expression, shapes, coefficients.dtype)

    def contract(combination: Combination) -> Array:
        total = jnp.zeros((), coefficients.dtype)
        for index, field in enumerate(fields):
            own = [(c, symbol.alpha) for symbol, c in combination if symbol.name == field]
            if own:
                network = features.contract(coefficients, index, own)
                total = network if total.ndim == 0 else total + network
                lift = lifts[field]
                if lift is not None:
                    total = total + _total((w * c, lift(where, alpha)) for c, alpha in own for w, where in places)
        return total

    residual = fused.evaluate({atom: contract(atom) for atom in fused.atoms}, others)
    return jnp.broadcast_to(residual, shape)


def residuals(
    model: Model, inputs: Mapping[str, Evaluator], where: Where, boundary: Where | None = None
) -> dict[str, Float[Array, "functions *shape"]]:
    """Every residual of the model's problem, by name: equations, soft conditions, free residuals, periodic jumps.

    **Arguments:**

    - `inputs`: for each input a batch of functions.
    - `where`: the interior locations.
    - `boundary`: locations for the faces (the coordinate across a face is ignored); by default `where`.
    """
    boundary = where if boundary is None else boundary
    terms = model.problem.terms(model.exact)
    features = model.features(where, boundary, request_of(terms))
    coefficients = model.coefficients(model.encode(inputs))
    lifts = model.lifts(inputs)
    made: dict[str, Array] = {}
    for term in terms:
        places = places_of(term.face, where if term.face is None else boundary)
        made[term.name] = evaluate_term(
            term, model.problem.fields, coefficients, features[term.face], places, inputs, lifts
        )
    return made


def evaluate(
    model: Model, inputs: Mapping[str, Evaluator], where: Where, symbols: Sequence[Symbol]
) -> dict[Symbol, Float[Array, "functions *shape"]]:
    """Fields and their derivatives."""
    features = model.features(where, where, {None: frozenset(symbol.alpha for symbol in symbols)})[None]
    coefficients = model.coefficients(model.encode(inputs))
    lifts = model.lifts(inputs)
    made: dict[Symbol, Array] = {}
    for symbol in symbols:
        value = features.contract(coefficients, model.problem.fields.index(symbol.name), [(1.0, symbol.alpha)])
        lift = lifts[symbol.name]
        made[symbol] = value if lift is None else value + lift(where, symbol.alpha)
    return made


def separable_features(
    names: tuple[str, ...],
    trunks: Sequence[Callable[[Array, int], Float[Array, "orders fields rank n"]]],
    decoder: Decoder,
    where: Where,
    boundary: Where,
    request: Request,
) -> dict[Face | None, Separable]:
    """One Taylor pass per axis, at the points of the interior and the nodes of the faces together."""
    grid = isinstance(where, Grid)
    shared = boundary is where
    tables: list[Array] = []
    edges: list[Array] = []
    ends: list[dict[float, Array]] = []
    for name, trunk in zip(names, trunks, strict=True):
        highest = max((order(alpha, name) for alphas in request.values() for alpha in alphas), default=0)
        nodes = tuple(dict.fromkeys(n for face in request if face is not None and face.axis == name for n in face.nodes))
        inside, outside = where[name], boundary[name]
        parts = [inside, jnp.asarray(nodes, inside.dtype)] + ([] if shared else [outside])
        table = trunk(jnp.concatenate(parts), highest)
        n = inside.shape[0]
        tables.append(table[..., :n])
        ends.append({node: table[..., n + i : n + i + 1] for i, node in enumerate(nodes)})
        edges.append(table[..., :n] if shared else table[..., n + len(nodes) :])
    made: dict[Face | None, Separable] = {}
    for face in request:
        if face is None:
            made[face] = Separable(names, tuple(tables), decoder, grid)
            continue
        own = names.index(face.axis)
        edge = _total((w, ends[own][node]) for node, w in zip(face.nodes, face.weights, strict=True))
        if not isinstance(boundary, Grid):
            edge = jnp.broadcast_to(edge, (*edge.shape[:-1], boundary.shape[0]))
        made[face] = Separable(names, tuple(edge if i == own else e for i, e in enumerate(edges)), decoder, isinstance(boundary, Grid))
    return made


def joint_features(
    evaluators: Sequence[Evaluator], where: Where, boundary: Where, request: Request
) -> dict[Face | None, Joint]:
    """The derivatives of functions of all coordinates; one evaluator per field."""
    made: dict[Face | None, Joint] = {}
    for face, alphas in request.items():
        places = places_of(face, where if face is None else boundary)
        chosen = tuple(sorted(alphas))
        tables = tuple(
            jnp.stack([_total((w, evaluator(place, alpha)) for w, place in places) for evaluator in evaluators])
            for alpha in chosen
        )
        made[face] = Joint(chosen, tables)
    return made


def _total(parts: Iterable[tuple[float, Array]]) -> Array:
    return reduce(add, [value if weight == 1.0 else weight * value for weight, value in parts])
