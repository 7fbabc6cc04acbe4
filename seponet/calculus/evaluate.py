"""Residuals of a problem for a model: derivatives are asked for first, then delivered together.

A model is, for every location, a set of basis functions shared by all input functions, times coefficients that depend
on the input: s = lift + sum_k beta_k(u) phi_k(y). So a derivative of s is a contraction of the coefficients with a
derivative of the basis functions (`basis_values.py`), and a combination of derivatives that is linear with numbers as
coefficients costs one contraction too (`linear_parts.py`).

Whether the location is a grid or scattered points makes no difference here.
"""

from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ..equations.symbols import Symbol
from ..equations.terms import Term
from ..locations import Evaluable, Location
from .basis_values import BasisValues, Places, requested_derivatives, weighted_locations, weighted_sum
from .lift import value_of
from .linear_parts import Combination, LinearParts, fuse
from .model import Model


class Known(eqx.Module):
    """What a term needs besides the network: inputs and coordinates, and the lift's part of each atom."""

    others: tuple[Array, ...]
    lifted: tuple[Array | None, ...]


def fuse_term(
    term: Term, shape: tuple[int, ...], places: Places, inputs: Mapping[str, Evaluable], dtype: DTypeLike
) -> LinearParts:
    """The term's contractions, for values of the given shape."""
    symbols = [symbol for symbol in term.expression.symbols if symbol.kind != "field"]
    values = jax.eval_shape(lambda: [value_of(symbol, inputs, places[0][1]) for symbol in symbols])
    others = {symbol: value.shape for symbol, value in zip(symbols, values, strict=True)}
    return fuse(term.expression, {s: others.get(s, shape) for s in term.expression.symbols}, dtype)


def known_parts(
    term: Term,
    fused: LinearParts,
    places: Places,
    inputs: Mapping[str, Evaluable],
    lifts: Mapping[str, Evaluable | None],
) -> Known:
    """Everything but the network, at one location (or its weighted sum over several, for a jump)."""
    others = tuple(
        weighted_sum((w, value_of(symbol, inputs, where)) for w, where in places)
        for symbol in term.expression.symbols
        if symbol.kind != "field"
    )
    lifted: list[Array | None] = []
    for atom in fused.atoms:
        parts = [(c, symbol.alpha, lifts[symbol.name]) for symbol, c in atom]
        found = [(w * c, lift(where, alpha)) for c, alpha, lift in parts if lift for w, where in places]
        lifted.append(weighted_sum(found) if found else None)
    return Known(others, tuple(lifted))


def contract_atom(
    atom: Combination, fields: Sequence[str], coefficients: Array, features: BasisValues
) -> Float[Array, "functions *shape"]:
    """The network's part of an atom, which may combine several fields."""
    parts: list[tuple[float, Array]] = []
    for index, field in enumerate(fields):
        own = [(c, symbol.alpha) for symbol, c in atom if symbol.name == field]
        if own:
            parts.append((1.0, features.contract(coefficients, index, own)))
    return weighted_sum(parts)


def combine(term: Term, fused: LinearParts, known: Known, values: Sequence[Array]) -> Array:
    """The residual, given the values of its atoms."""
    symbols = [symbol for symbol in term.expression.symbols if symbol.kind != "field"]
    return fused.evaluate(dict(zip(fused.atoms, values, strict=True)), dict(zip(symbols, known.others, strict=True)))


def evaluate_term(
    term: Term, fused: LinearParts, known: Known, fields: Sequence[str], coefficients: Array, features: BasisValues
) -> Float[Array, "functions *shape"]:
    """One residual."""
    values = [contract_atom(atom, fields, coefficients, features) for atom in fused.atoms]
    values = [v if lift is None else v + lift for v, lift in zip(values, known.lifted, strict=True)]
    return jnp.broadcast_to(combine(term, fused, known, values), (coefficients.shape[0], *features.shape))


def residuals(
    model: Model, inputs: Mapping[str, Evaluable], where: Location, boundary: Location | None = None
) -> dict[str, Float[Array, "functions *shape"]]:
    """Every residual of the model's problem, by name: equations, soft conditions, free residuals, periodic jumps.

    **Arguments:**

    - `inputs`: for each input a batch of functions.
    - `where`: the interior locations.
    - `boundary`: locations for the faces (the coordinate across a face is ignored); by default `where`.
    """
    boundary = where if boundary is None else boundary
    terms = model.problem.terms(model.exact)
    features = model.basis_values(where, boundary, requested_derivatives(terms))
    coefficients = model.coefficients(model.encode(inputs))
    lifts = model.lifts(inputs)
    made: dict[str, Array] = {}
    for term in terms:
        places = weighted_locations(term.face, where if term.face is None else boundary)
        local = features[term.face]
        fused = fuse_term(term, (coefficients.shape[0], *local.shape), places, inputs, coefficients.dtype)
        known = known_parts(term, fused, places, inputs, lifts)
        made[term.name] = evaluate_term(term, fused, known, model.problem.fields, coefficients, local)
    return made


def evaluate(
    model: Model, inputs: Mapping[str, Evaluable], where: Location, symbols: Sequence[Symbol]
) -> dict[Symbol, Float[Array, "functions *shape"]]:
    """Fields and their derivatives."""
    features = model.basis_values(where, where, {None: frozenset(symbol.alpha for symbol in symbols)})[None]
    coefficients = model.coefficients(model.encode(inputs))
    lifts = model.lifts(inputs)
    made: dict[Symbol, Array] = {}
    for symbol in symbols:
        value = features.contract(coefficients, model.problem.fields.index(symbol.name), [(1.0, symbol.alpha)])
        lift = lifts[symbol.name]
        made[symbol] = value if lift is None else value + lift(where, symbol.alpha)
    return made
