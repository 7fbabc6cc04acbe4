"""A model evaluated: all residuals of its problem, or its fields and their derivatives."""

from collections.abc import Mapping, Sequence

from jaxtyping import Array, Float

from ..derivatives import MultiIndex
from ..equations.problem import Problem
from ..equations.pullback import physical_derivative
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
    """Fields and their derivatives, which on a mapped domain are physical ones."""
    problem = model.problem
    expressions = {symbol: physical_derivative(symbol, problem.chart) for symbol in symbols}
    needed = dict.fromkeys(s for expression in expressions.values() for s in expression.fields)
    basis = model.basis_values(where, where, {None: frozenset(symbol.alpha for symbol in needed)})[None]
    coefficients = model.coefficients(model.encode(inputs))
    lifts = model.lifts(inputs)
    along_box: dict[Symbol, Array] = {}
    for symbol in needed:
        value = basis.contract(coefficients, problem.fields.index(symbol.name), [(1.0, symbol.alpha)])
        lift = lifts[symbol.name]
        along_box[symbol] = value if lift is None else value + lift(where, symbol.alpha)
    values: dict[Symbol, Array] = {}
    for symbol, expression in expressions.items():
        others = [s for s in expression.symbols if s.kind != "field"]
        values[symbol] = expression({**along_box, **{s: s.evaluate(inputs, where) for s in others}})
    return values


def derivatives_along_box(problem: Problem, symbols: Sequence[Symbol]) -> frozenset[MultiIndex]:
    """The derivatives along the box that `evaluate` needs of the basis functions."""
    expressions = [physical_derivative(symbol, problem.chart) for symbol in symbols]
    return frozenset(symbol.alpha for expression in expressions for symbol in expression.fields)


def volume_element(problem: Problem, inputs: Mapping[str, Evaluable], where: Location) -> Float[Array, "_ *_"] | None:
    """|det J| of a mapped domain, with the rank of the location; None on a box."""
    return None if problem.chart is None else problem.chart.volume(inputs, where)
