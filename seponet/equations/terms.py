"""Terms, which equations and conditions become: residuals in the interior and on faces."""

from dataclasses import dataclass

from jaxtyping import Array

from ..derivatives import Trace, multi_index
from ..domain import Domain
from .expression import Expression
from .symbols import Symbol


@dataclass(frozen=True)
class Face:
    """The part of the domain where the coordinate `axis` takes fixed values, each with a weight.

    One value with weight 1 is an ordinary face. Two values with weights -1 and 1 are the jump across a periodic axis.
    """

    axis: str
    nodes: tuple[float, ...]
    weights: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class Term:
    """A residual that should vanish: in the interior (`face` is None) or on a face."""

    name: str
    expression: Expression
    face: Face | None = None


@dataclass(frozen=True)
class LinearCondition:
    """sum_m weights[m] d^m s / dn^m = data where the coordinate n = `trace.at`: what can be imposed exactly."""

    name: str
    axis: str
    field: str
    trace: Trace
    data: Expression
    implied: bool = False

    def term(self) -> Term:
        """The same condition as a soft residual."""
        derivatives = [
            (w, Symbol("field", self.field, multi_index(**{self.axis: m})))
            for m, w in enumerate(self.trace.weights)
            if w
        ]
        count = len(derivatives)

        def residual(*arguments: Array) -> Array:
            left = sum(w * value for (w, _), value in zip(derivatives, arguments[:count], strict=True))
            return left - self.data.function(*arguments[count:])

        symbols = (*(symbol for _, symbol in derivatives), *self.data.symbols)
        return Term(self.name, Expression(symbols, residual), Face(self.axis, (self.trace.at,)))


def periodic_jumps(axis: str, field: str, orders: int, domain: Domain, only: bool) -> list[Term]:
    """The residuals of a periodic axis for a model that isn't periodic by itself: jumps of s, ds/dn, ...

    **Arguments:**

    - `orders`: how many jumps, at least one; a PDE of this order along the axis needs as many.
    - `only`: whether this is the only field, so that the first jump needs no field in its name.
    """
    interval = domain.axis(axis)
    face = Face(axis, (interval.lower, interval.upper), (-1.0, 1.0))
    terms: list[Term] = []
    for m in range(max(orders, 1)):
        symbol = Symbol("field", field, multi_index(**{axis: m}))
        name = f"{axis} periodic" if only and m == 0 else f"{axis} periodic {symbol}"
        terms.append(Term(name, Expression((symbol,), lambda value: value), face))
    return terms
