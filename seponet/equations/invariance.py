"""Translation invariance: axes along which a problem looks the same everywhere."""

from .chart import Chart
from .problem import Problem


def invariant_axis(problem: Problem) -> str:
    """The first axis along which a problem looks the same everywhere; empty if there is none."""
    return next((axis for axis in problem.domain if obstacle(problem, axis) is None), "")


def obstacle(problem: Problem, axis: str) -> str | None:
    """Why a problem may depend on the position along an axis; None if it looks the same everywhere."""
    if not problem.domain.axis(axis).periodic:
        return f"needs a periodic axis, and {axis} is an interval"
    terms = (*problem.equations, *problem.free_conditions, *(c.term() for c in problem.linear_conditions))
    for term in terms:
        on_face = term.face is not None and term.face.axis == axis
        symbols = term.expression.symbols
        if any(s.chart is not None for s in symbols) and problem.chart and _is_mapped(problem.chart, axis):
            return f"needs inputs that are functions of {axis}, and {term.name!r} has one of coordinates"
        if on_face or any(s.kind == "coordinate" and s.name == axis for s in symbols):
            return f"needs a problem that looks the same everywhere; {term.name!r} depends on {axis}"
    if problem.derived or type(problem).singular_part is not Problem.singular_part:
        return f"can't be checked: {type(problem).__name__} has derived functions or a known part"
    if not any(axis in space.domain for space in problem.inputs.values()):
        return f"moves the inputs along {axis}, and none of them depends on it"
    return None


def _is_mapped(chart: Chart, axis: str) -> bool:
    """Whether a position along an axis is one in space."""
    return axis in chart.domain.replaced or chart.moves_with(axis)
