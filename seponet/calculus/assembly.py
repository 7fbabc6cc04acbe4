r"""The residuals of a problem for a model, assembled in one place: terms x locations x basis values x lifts.

A model is, at every location, a set of basis functions shared by all input functions, times coefficients that depend
on the input: $s = \text{lift} + \sum_k \beta_k(u)\, \phi_k(y)$. So a derivative of s is a contraction of the
coefficients with a derivative of the basis functions (`basis_values.py`), and a combination of derivatives that is
linear with numbers as coefficients, an *atom*, costs one contraction too (`linear_parts.py`). An `Assembly` asks a
model once for all that its terms need; residuals, losses, Gram matrices, Gauss-Newton and cost are loops over its
pieces.

Whether the locations are a grid or scattered points makes no difference here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..equations.linear_parts import Combination, LinearParts, fuse
from ..equations.terms import Face, Term
from ..locations import Evaluable
from .basis_values import (
    BasisValues,
    Weighted,
    WeightedLocations,
    requested_derivatives,
    weighted_locations,
    weighted_sum,
)
from .collocation import Collocation, Quadrature
from .model import Model


class TermData(eqx.Module):
    """What a term needs besides the network.

    - `others`: the values of its inputs and coordinates.
    - `lifted`: the lift's part of each atom, None where there is none.
    """

    others: tuple[Array, ...]
    lifted: tuple[Array | None, ...]


@dataclass(frozen=True, eq=False)
class Piece:
    """One residual in the interior or on one face: all that is known about it before the coefficients are.

    **Arguments:**

    - `term`: the residual.
    - `fields`: the problem's fields, in the order of the coefficients.
    - `inputs`, `lifts`: the input functions, and for each field what carries the data of its exact conditions.
    - `locations`: where it is asked to vanish: one location, or the two weighted sides of a jump.
    - `basis`: the basis functions there; None leaves the network out.
    - `quadrature`: the weights along each axis; None is uniform.
    - `functions`: how many input functions there are.
    """

    term: Term
    fields: tuple[str, ...]
    inputs: Mapping[str, Evaluable]
    lifts: Mapping[str, Evaluable | None]
    locations: WeightedLocations
    basis: BasisValues | None
    quadrature: Quadrature
    functions: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the locations, without the functions."""
        return self.locations[0][1].shape

    @cached_property
    def parts(self) -> LinearParts:
        """The atoms of the residual, and what is left to do with their values."""
        where = self.locations[0][1]
        others = [symbol for symbol in self.term.expression.symbols if symbol.kind != "field"]
        values = jax.eval_shape(lambda: [symbol.evaluate(self.inputs, where) for symbol in others])
        known = {symbol: value.shape for symbol, value in zip(others, values, strict=True)}
        shapes = {s: known.get(s, (self.functions, *self.shape)) for s in self.term.expression.symbols}
        return fuse(self.term.expression, shapes, where.points[0].dtype)

    @cached_property
    def data(self) -> TermData:
        """Everything but the network, summed over the sides of a jump."""
        others = tuple(
            weighted_sum((weight, symbol.evaluate(self.inputs, where)) for weight, where in self.locations)
            for symbol in self.term.expression.symbols
            if symbol.kind != "field"
        )
        lifted: list[Array | None] = []
        for atom in self.parts.atoms:
            lifts = [(c, symbol.alpha, self.lifts[symbol.name]) for symbol, c in atom]
            values = [(w * c, lift(where, alpha)) for c, alpha, lift in lifts if lift for w, where in self.locations]
            lifted.append(weighted_sum(values) if values else None)
        return TermData(others, tuple(lifted))

    def residual(
        self, coefficients: Float[Array, "functions fields *_"] | None, data: TermData | None = None
    ) -> Float[Array, "functions *shape"]:
        """The residual for given coefficients; without any, that of the lift alone.

        **Arguments:**

        - `data`: what `self.data` is, if it has been computed elsewhere.
        """
        return self.combine([self._contract(atom, coefficients) for atom in self.parts.atoms], data)

    def combine(self, values: Sequence[Array | None], data: TermData | None = None) -> Float[Array, "functions *shape"]:
        """The residual for given values of the network's part of every atom; None is zero."""
        data = self.data if data is None else data
        return self._body(self._lifted(values, data), data)

    def linearise(
        self, coefficients: Float[Array, "functions fields *_"] | None
    ) -> tuple[Float[Array, "functions *shape"], list[Float[Array, "functions *shape"]]]:
        """The residual b, and db/da for every atom a, at given coefficients or at the lift alone.

        J = sum_a (db/da) Phi_a with the rows Phi_a of `basis_rows`: since a body is elementwise, one number for every
        function and location says all of its derivative.
        """
        shape = (self.functions, *self.shape)
        values = self._lifted([self._contract(atom, coefficients) for atom in self.parts.atoms], self.data)
        values = [jnp.broadcast_to(value, shape) for value in values]
        residual, push = jax.linearize(lambda *atoms: self._body(atoms, self.data), *values)
        ones = [[jnp.full(shape, float(i == j)) for j in range(len(values))] for i in range(len(values))]
        return residual, [push(*tangents) for tangents in ones]

    def basis_rows(self, coefficient_shape: tuple[int, ...]) -> list[Float[Array, "size points"]]:
        """For every atom its value for each basis function alone, at all locations."""
        size = jnp.zeros(coefficient_shape).size
        identity = jnp.eye(size).reshape(size, *coefficient_shape)
        rows = [self._contract(atom, identity) for atom in self.parts.atoms]
        return [row.reshape(size, -1) for row in rows if row is not None]

    def volume(self) -> Float[Array, "*shape"]:
        """The weight of every location; they sum to one."""
        product = jnp.ones((1,) * len(self.shape))
        for axis, (n, weights) in enumerate(zip(self.shape, self.quadrature, strict=True)):
            row = jnp.full((n,), 1 / n) if weights is None else weights
            product = product * row.reshape([-1 if axis == i else 1 for i in range(len(self.shape))])
        return product

    def contractions(self) -> list[tuple[int, Weighted]]:
        """The contractions of one evaluation: for each the field, and the combination of its derivatives."""
        return [pair for atom in self.parts.atoms for pair in self._by_field(atom)]

    def flops(self) -> int:
        """Floating point operations in the contractions, for one function."""
        return 0 if self.basis is None else sum(self.basis.flops(*pair) for pair in self.contractions())

    def padded(self, count: int, axis: int) -> "Piece":
        """With the last location along an axis repeated `count` times, with weight zero. `basis` stays as it is."""
        total = self.shape[axis]
        weights = self.quadrature[axis]
        weights = jnp.pad(jnp.full((total,), 1 / total) if weights is None else weights, (0, count))
        locations = tuple((w, where.pad(count, axis)) for w, where in self.locations)
        return replace(self, locations=locations, quadrature=_replaced(self.quadrature, axis, weights))

    def rows(self, basis: BasisValues, start: Array | int, size: int, axis: int) -> "Piece":
        """The slab of `size` consecutive locations along an axis, where the basis functions are `basis`.

        The weights along that axis are numbers (see `padded`).
        """
        weights = self.quadrature[axis]
        if weights is not None:
            weights = jax.lax.dynamic_slice_in_dim(weights, start, size)
        locations = tuple((w, where.rows(start, size, axis)) for w, where in self.locations)
        quadrature = _replaced(self.quadrature, axis, weights)
        return replace(self, basis=basis, locations=locations, quadrature=quadrature)

    def _by_field(self, atom: Combination) -> list[tuple[int, Weighted]]:
        derivatives = {f: [(c, symbol.alpha) for symbol, c in atom if symbol.name == f] for f in self.fields}
        return [(index, derivatives[f]) for index, f in enumerate(self.fields) if derivatives[f]]

    def _contract(self, atom: Combination, coefficients: Array | None) -> Array | None:
        """The network's part of an atom, which may combine several fields."""
        if self.basis is None or coefficients is None:
            return None
        basis = self.basis
        return weighted_sum((1.0, basis.contract(coefficients, *pair)) for pair in self._by_field(atom))

    def _lifted(self, values: Sequence[Array | None], data: TermData) -> list[Array]:
        """The values of the atoms: the network's part and the lift's."""
        atoms: list[Array] = []
        for value, lift in zip(values, data.lifted, strict=True):
            if value is None or lift is None:
                some = value if lift is None else lift
                atoms.append(jnp.zeros((1,) * (1 + len(self.shape))) if some is None else some)
            else:
                atoms.append(value + lift)
        return atoms

    def _body(self, atoms: Sequence[Array], data: TermData) -> Float[Array, "functions *shape"]:
        symbols = [symbol for symbol in self.term.expression.symbols if symbol.kind != "field"]
        values = dict(zip(self.parts.atoms, atoms, strict=True))
        residual = self.parts.evaluate(values, dict(zip(symbols, data.others, strict=True)))
        return jnp.broadcast_to(residual, (self.functions, *self.shape))


class Assembly:
    """All residuals of a model's problem, for a batch of inputs, at collocation points.

    **Arguments:**

    - `model`, `inputs`, `collocation`: whose residuals, for which functions, where.
    - `functions`: how many functions there are; one if the problem has no inputs.
    - `network`: False leaves the network out: the residuals of the lift alone. Basis functions are not computed then.
    """

    def __init__(
        self,
        model: Model,
        inputs: Mapping[str, Evaluable],
        collocation: Collocation,
        functions: int,
        *,
        network: bool = True,
    ) -> None:
        self.terms = model.problem.terms(model.exact)
        basis: Mapping[Face | None, BasisValues] = {}
        if network:
            locations = collocation.where, collocation.location(faces=True)
            basis = model.basis_values(*locations, requested_derivatives(self.terms))
        lifts = model.lifts(inputs)
        self.pieces = [
            Piece(
                term,
                model.problem.fields,
                inputs,
                lifts,
                weighted_locations(term.face, collocation.location(faces=term.face is not None)),
                basis.get(term.face),
                collocation.quadrature(term.face),
                functions,
            )
            for term in self.terms
        ]

    def by_face(self) -> list[list[int]]:
        """The numbers of the pieces that share their locations and so their basis functions."""
        faces = dict.fromkeys(term.face for term in self.terms)
        return [[i for i, term in enumerate(self.terms) if term.face == face] for face in faces]


def _replaced(quadrature: Quadrature, axis: int, weights: Array | None) -> Quadrature:
    return (*quadrature[:axis], weights, *quadrature[axis + 1 :])
