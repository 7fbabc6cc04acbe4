r"""Conditions imposed exactly, by construction.

On one axis n, let the linear conditions be traces l_j(s) = d_j, and let h_j be polynomials with l_i(h_j) = delta_ij.
Then

    P f = sum_j h_j(y_n) l_j(f)

is a projector: P f has the same traces as f, so f - P f satisfies all conditions with zero data. So

    s = lift + (I - P_1) ... (I - P_d) network,        lift_k = lift_{k-1} + P_k (d_k - lift_{k-1}),

where lift_0 is the singular part of the problem (mostly zero), and the last stage wins: at a corner where the
data of two axes disagree, the conditions **declared first hold exactly** and the others are off by the disagreement,
along their whole faces. For instance an initial state that does not vanish on a wall with s = 0, the initial condition
being declared first, keeps the wall at its initial values. `compatibility.py` finds such data before training.

Because P acts on one axis only, a separable model is constrained by editing its one-dimensional factors.
"""

from collections.abc import Collection, Mapping, Sequence

import jax.numpy as jnp
from jaxtyping import Array

from ..derivatives import MultiIndex
from ..equations.expression import Expression
from ..equations.problem import Problem
from ..functions import Space
from ..locations import Evaluable, Location
from .projectors import Projector, make_projectors


def make_lift(
    problem: Problem, field: str, exact: Collection[str], functions: Mapping[str, Evaluable]
) -> Evaluable | None:
    """The lift of one field for a batch of input functions: a function that carries the data of its exact conditions.

    Its first stage is the singular part of the problem. None stands for zero: there is no singular part, and all exact
    conditions have zero data.
    """
    data: dict[str, list[Expression]] = {}
    for condition in problem.linear_conditions:
        if condition.field == field and condition.axis in exact:
            data.setdefault(condition.axis, []).append(condition.data)
    lift = problem.singular_part(functions).get(field)
    # In reverse, because the last stage wins and the conditions that are declared first shall hold.
    for projector in reversed(make_projectors(problem, field, exact)):
        trace_data = [None if e.is_zero else make_data(e, problem.spaces, functions) for e in data[projector.name]]
        lift = _stage(projector, trace_data, lift)
    return lift


def _stage(projector: Projector, given: Sequence[Evaluable | None], before: Evaluable | None) -> Evaluable | None:
    """before + P (given - before), where None is zero."""
    if before is None:
        return projector.interpolate(given) if any(given) else None
    added, removed = projector.interpolate(given), projector(before)
    return lambda where, alpha: before(where, alpha) + added(where, alpha) - removed(where, alpha)


def make_data(expression: Expression, inputs: Mapping[str, Space], functions: Mapping[str, Evaluable]) -> Evaluable:
    """The right-hand side of a condition for a batch of input functions, with derivatives: each is exact."""

    def evaluate(where: Location, alpha: MultiIndex) -> Array:
        derived = expression
        for axis, n in alpha:
            for _ in range(n):
                derived = derived.differentiate(axis, inputs)
        result = derived({symbol: symbol.evaluate(functions, where) for symbol in derived.symbols})
        return jnp.reshape(result, (1,) * (1 + len(where.shape))) if result.ndim == 0 else result

    return evaluate
