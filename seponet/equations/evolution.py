"""Evolution equations whose state is what they start from: one law for all times, applied again and again."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from .conditions import Value, field_of
from .problem import Problem


@dataclass(frozen=True)
class Evolution:
    """The structure of an evolution equation.

    - `time`, `space`: the axes.
    - `initial`: for each field the input that it starts from; empty if it starts from zero.
    - `parameters`: the other inputs, which act at all times alike.
    """

    time: str
    space: tuple[str, ...]
    initial: tuple[str, ...]
    parameters: tuple[str, ...]


def find_evolution(problem: Problem) -> Evolution:
    """The structure of a problem of first order in time whose initial states are inputs and whose law does not change
    with time: a state at any time then determines all later ones as the initial state does. A `ValueError` says what
    is missing."""
    name = type(problem).__name__
    time = problem.time_axis()
    space = tuple(axis for axis in problem.domain if axis != time)
    on_time = [c for c in problem.linear_conditions if c.axis == time]
    if not space or len(on_time) > len(problem.fields) or problem.highest_order(time) > 1:
        raise ValueError(f"{name} is not of first order in {time} with a state along other axes")
    if problem.chart is not None or problem.derived or type(problem).singular_part is not Problem.singular_part:
        raise ValueError(f"{name} has a mapped domain, derived functions or a singular part, which states have not")
    conditions = [c for c in problem.conditions if isinstance(c, Value) and time in c.at]
    data = {field_of(c, problem.vocabulary): c.equals for c in conditions}
    initial: list[str] = []
    for field in problem.fields:
        equals = data.get(field)
        named = problem.inputs.get(equals) if isinstance(equals, str) else None
        if named is not None and named.domain.names == space and named.components is None:
            initial.append(str(equals))
        elif isinstance(equals, int | float) and equals == 0:
            initial.append("")
        else:
            raise ValueError(f"{name} starts {field} neither from an input on {', '.join(space)} nor from zero")
    parameters = tuple(n for n in sorted(problem.inputs) if n not in initial)
    axes = {n: problem.inputs[n].domain.names for n in parameters}
    ordered = all(tuple(axis for axis in space if axis in names) == names for names in axes.values())
    if not ordered or any(problem.inputs[n].components is not None for n in parameters) or not any(initial):
        raise ValueError(f"{name} has inputs with components or in another order of axes, or none that it starts from")
    return Evolution(time, space, tuple(initial), parameters)


def is_linear(problem: Problem) -> bool:
    """Whether solutions are affine in the inputs: every equation and condition is, in fields and inputs together, as
    its values at random numbers tell."""
    random = np.random.default_rng(0)
    for term in problem.terms():
        symbols = term.expression.symbols
        places = {n: axis.lower + axis.length * random.uniform(0.1, 0.9) for n, axis in problem.domain.axes}
        fixed = np.array([symbol.kind == "coordinate" for symbol in symbols], bool)
        at = np.array(
            [places.get(symbol.name, 0.0) if still else 0.0 for symbol, still in zip(symbols, fixed, strict=True)]
        )
        a, b = (np.where(fixed, at, random.normal(size=len(symbols))) for _ in range(2))
        values = [float(term.expression.function(*jnp.asarray(row))) for row in (a + b - at, a, b, at)]
        if not abs(values[0] - values[1] - values[2] + values[3]) <= 1e-4 * max(map(abs, values)):
            return False
    return True
