"""Where a residual has no value: the term, the function, the point, and the operation that has none there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jaxtyping import Array

from ..equations.expression import Expression
from ..functions import Functions
from ..locations import Location, Points
from .assembly import Assembly, Piece
from .collocation import Collocation
from .evaluate import evaluate
from .model import Model

NO_VALUE = "has no value at"
"""By which a sentence is known that says so."""


@dataclass(frozen=True)
class Undefined:
    """A place where a residual, or its derivative, is no number.

    - `term`: the name of the residual.
    - `function`: the number of the input function.
    - `point`: for each axis the coordinate.
    - `values`: of the residual's symbols there.
    - `operation`: what has no value, in words; empty if that can't be told.
    - `slope`: whether the residual has a value and its derivative has none.
    - `lift`: whether it is the residual of the lift alone, without the network.
    """

    term: str
    function: int
    point: Mapping[str, float]
    values: Mapping[str, float]
    operation: str
    slope: bool
    lift: bool

    def __str__(self) -> str:
        what = f"{'the derivative of ' if self.slope else ''}`{self.term}`"
        of = " of the lift alone, without the network," if self.lift else ""
        where = ", ".join(f"{name} = {value:.4g}" for name, value in (*self.point.items(), *self.values.items()))
        why = f": {self.operation}" if self.operation else ""
        return f"{what}{of} {NO_VALUE} {where}{why}"


def find_undefined(
    model: Model, inputs: Mapping[str, Functions], collocation: Collocation, functions: int
) -> Undefined | None:
    """The first place where a residual of the model, its derivative, or the residual of its lift is no number.

    Functions are looked at one by one, so that the memory stays that of one.

    **Arguments:**

    - `model`, `inputs`, `collocation`: whose residuals, for which functions, where.
    - `functions`: how many functions there are; one if the problem has no inputs.
    """
    for i in range(functions):
        one = {name: f[i : i + 1] for name, f in inputs.items()}
        coefficients = model.coefficients(model.encode(one))
        for network in (True, False):
            for piece in Assembly(model, one, collocation, 1, network=network).pieces:
                residual, slopes = piece.linearise(coefficients if network else None)
                # Without the network nothing is differentiated.
                for slope, values in enumerate([residual, *slopes] if network else [residual]):
                    wrong = np.argwhere(~np.isfinite(np.asarray(values)))
                    if len(wrong):
                        place = tuple(int(n) for n in wrong[0, 1:])
                        return _describe(model if network else None, piece, one, place, i, slope=slope > 0)
    return None


def _describe(
    model: Model | None, piece: Piece, inputs: Mapping[str, Functions], place: tuple[int, ...], number: int, slope: bool
) -> Undefined:
    where = _point(piece.locations[0][1], place)
    expression = piece.term.expression
    symbols = [symbol for symbol in expression.symbols if symbol.kind == "field"]
    if model is None:
        fields = {
            s: jnp.zeros((1, 1)) if (lift := piece.lifts[s.name]) is None else lift(where, s.alpha) for s in symbols
        }
    else:
        fields = evaluate(model, inputs, where, symbols) if symbols else {}
    values = [fields[s] if s in fields else s.evaluate(inputs, where) for s in expression.symbols]
    numbers = {str(s): float(v.reshape(-1)[0]) for s, v in zip(expression.symbols, values, strict=True) if v.size == 1}
    point = {name: float(along[0]) for name, along in zip(where.names, where.points, strict=True)}
    shown = {name: value for name, value in numbers.items() if name not in point}
    operation = _operation(expression, values, slope=slope)
    return Undefined(piece.term.name, number, point, shown, operation, slope, model is None)


def _point(where: Location, place: tuple[int, ...]) -> Points:
    places = place * len(where.names) if isinstance(where, Points) else place
    return Points(where.names, tuple(along[i][None] for along, i in zip(where.points, places, strict=True)))


def _operation(expression: Expression, values: Sequence[Array], *, slope: bool) -> str:
    """The first operation of a formula that makes something that is no number from numbers."""

    def derivative(*arguments: Array) -> Any:
        return jax.jvp(expression.function, arguments, tuple(jnp.ones_like(a) for a in arguments))

    closed = jax.make_jaxpr(derivative if slope else expression.function)(*values)
    return _first(closed.jaxpr, closed.consts, values)[1]


def _first(program: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> tuple[list[Any], str]:
    """The results of a traced program, and in words its first operation without a value."""
    known = dict(zip(program.constvars, consts, strict=True)) | dict(zip(program.invars, arguments, strict=True))
    for equation in program.eqns:
        operands = [v.val if isinstance(v, core.Literal) else known[v] for v in equation.invars]
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        if isinstance(inner, core.ClosedJaxpr) and equation.primitive.name not in ("scan", "while", "cond"):
            results, found = _first(inner.jaxpr, inner.consts, operands)
            if found:
                return results, found
        else:
            bound = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))
            results = list(bound) if equation.primitive.multiple_results else [bound]
        if all(_finite(o) for o in operands) and not all(_finite(r) for r in results):
            listed = " and ".join(f"{float(np.ravel(o)[0]):.4g}" for o in operands if np.size(o) == 1)
            return results, f"`{equation.primitive.name}` of {listed or 'numbers'} is no number"
        known.update(zip(equation.outvars, results, strict=True))
    return [v.val if isinstance(v, core.Literal) else known[v] for v in program.outvars], ""


def _finite(value: Any) -> bool:
    return not jnp.issubdtype(jnp.result_type(value), jnp.inexact) or bool(jnp.all(jnp.isfinite(value)))
