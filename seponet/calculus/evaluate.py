"""A model evaluated: all residuals of its problem, or its fields and their derivatives."""

from collections.abc import Mapping, Sequence

from jaxtyping import Array, Float

from ..equations.symbols import Symbol
from ..locations import Evaluable, Location
from .assembly import Assembly
from .collocation import Collocation
from .model import Model


def residuals(
    model: Model, inputs: Mapping[str, Evaluable], where: Location, boundary: Location | None = None
) -> dict[str, Float[Array, "functions *shape"]]:
    """Every residual of the model's problem, by name: equations, soft conditions, free residuals, periodic jumps.

    **Arguments:**

    - `inputs`: for each input a batch of functions.
    - `where`: the interior locations.
    - `boundary`: locations for the faces (the coordinate across a face is ignored); by default `where`.
    """
    coefficients = model.coefficients(model.encode(inputs))
    assembly = Assembly(model, inputs, Collocation.uniform(where, boundary), coefficients.shape[0])
    return {piece.term.name: piece.residual(coefficients) for piece in assembly.pieces}


def evaluate(
    model: Model, inputs: Mapping[str, Evaluable], where: Location, symbols: Sequence[Symbol]
) -> dict[Symbol, Float[Array, "functions *shape"]]:
    """Fields and their derivatives."""
    basis = model.basis_values(where, where, {None: frozenset(symbol.alpha for symbol in symbols)})[None]
    coefficients = model.coefficients(model.encode(inputs))
    lifts = model.lifts(inputs)
    values: dict[Symbol, Array] = {}
    for symbol in symbols:
        value = basis.contract(coefficients, model.problem.fields.index(symbol.name), [(1.0, symbol.alpha)])
        lift = lifts[symbol.name]
        values[symbol] = value if lift is None else value + lift(where, symbol.alpha)
    return values
