"""Which problems are incompressible flows in the plane: their two fields are shown as one, by their vorticity."""

from ..derivatives import multi_index
from .problem import Problem


def flow_axes(problem: Problem) -> tuple[str, ...] | None:
    """The axes (x, y) of a problem whose two fields are the velocity of an incompressible flow; None for others.

    An equation between p_x and q_y alone is the continuity equation, and tells so.
    """
    if len(problem.fields) != 2:
        return None
    derivatives = {name: multi_index(**{name: 1}) for name in problem.domain}
    for term in problem.equations:
        slopes = {symbol.name: symbol.alpha for symbol in term.expression.fields}
        axes = tuple(name for field in problem.fields for name in derivatives if slopes.get(field) == derivatives[name])
        if len(term.expression.symbols) == 2 and len(set(axes)) == 2:
            return axes
    return None
