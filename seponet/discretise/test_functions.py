r"""Test functions: what residuals are integrated against, $G(c)_k = \langle \psi_k, R(c) \rangle$ (Petrov-Galerkin).

They are products of functions of one variable, as many as there are trial functions, so that G = 0 is a square system.
Along an axis, for the field that an equation belongs to:

- Periodic, or as many conditions at one end as at the other: the trial functions themselves (Galerkin). Integration by
  parts is implied, so near a corner or a rough coefficient the residual need not be square-integrable.
- Conditions at one end (time, inflow): the first polynomials (tau).

A condition that is not exact replaces the last test function of its axis by a row of its own, the condition tested on
its face (tau as well): both it and whatever it contradicts at an edge then hold in the mean.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..bases.base import Basis
from ..bases.orthonormal import Orthonormal
from ..bases.polynomial import Legendre
from ..bases.trigonometric import Fourier
from ..derivatives import Trace, order_along
from ..domain import Interval
from ..equations.problem import Problem
from ..equations.terms import Term
from ..mapped import Mapped
from .discretisation import Discretisation


@dataclass(frozen=True)
class TermTests:
    """The test functions of one term.

    - `field`: the field whose test functions they are.
    - `bases`: for each axis its functions; None along the normal of a face, where there is one point.
    """

    field: str
    bases: tuple[Basis | None, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(1 if basis is None else basis.size for basis in self.bases)


def make_tests(discretisation: Discretisation) -> tuple[TermTests, ...]:
    """The test functions of every term of a discretisation."""
    problem = discretisation.problem
    terms = problem.terms(discretisation.exact)
    owners = term_owners(problem, terms)
    rows = {
        (field, axis): [t for t in terms if t.face is not None and (owners[t.name], t.face.axis) == (field, axis)]
        for field in problem.fields
        for axis in problem.domain
    }
    soft = [axis for axis in problem.domain if any(rows[field, axis] for field in problem.fields)]
    tests: list[TermTests] = []
    for term in terms:
        field = owners[term.name]
        bases: list[Basis | None] = []
        for name, rank in discretisation.ranks:
            axis = problem.domain.axis(name)
            if term.face is not None and term.face.axis == name:
                bases.append(None)
                continue
            # Of two soft axes, the edges are counted once: with the faces of the first.
            later = term.face is not None and name in soft and soft.index(name) > soft.index(term.face.axis)
            count = rank if later else rank - len(rows[field, name])
            if count < 1:
                raise ValueError(f"{name} needs more than {rank} functions, because it has as many soft conditions")
            bases.append(_test_basis(problem, field, axis, name, count, rows[field, name], whole=later))
        tests.append(TermTests(field, tuple(bases)))
    return tuple(tests)


def is_square(discretisation: Discretisation, tests: tuple[TermTests, ...]) -> bool:
    """Whether there are as many tested rows as coefficients; otherwise they are solved by least squares."""
    return sum(int(np.prod(t.shape)) for t in tests) == discretisation.size


def is_balanced(problem: Problem, field: str, axis: str) -> bool:
    """Whether a field has as many conditions at one end of an axis as at the other, free residuals included.

    A pole of a map needs none: the volume element vanishes there, and with it what integration by parts leaves.
    """
    interval = problem.domain.axis(axis)
    owners = term_owners(problem, problem.terms(problem.domain.names))
    nodes = [c.trace.at for c in problem.linear_conditions if (c.field, c.axis) == (field, axis)]
    for term in problem.free_conditions:
        if term.face is not None and term.face.axis == axis and owners[term.name] == field:
            nodes.extend(term.face.nodes)
    if isinstance(problem.domain, Mapped) and axis in dict(problem.domain.poles):
        return len(nodes) == 1
    return interval.periodic or nodes.count(interval.lower) == nodes.count(interval.upper) == len(nodes) / 2


def term_owners(problem: Problem, terms: tuple[Term, ...]) -> dict[str, str]:
    """For every term, by name, the field whose functions test it.

    Conditions belong to the field that they differentiate most along their axis. Equations are matched with fields one
    to one: as `problem.tested_by` says, else by what each differentiates most along an axis with initial values, else
    along all axes together.
    """
    from scipy.optimize import linear_sum_assignment

    owners: dict[str, str] = {}
    for term in terms:
        if term.face is not None:
            symbols, axis = term.expression.fields, term.face.axis
            owners[term.name] = max(symbols, key=lambda s: order_along(s.alpha, axis)).name
    equations = [term for term in terms if term.face is None]
    declared = dict(problem.tested_by)
    scores = np.asarray([[_score(problem, term, field) for field in problem.fields] for term in equations])
    for row, term in enumerate(equations):
        if term.name in declared:
            scores[row] = [1e6 if field == declared[term.name] else -1e6 for field in problem.fields]
    # Rows beyond the number of fields (more equations than unknowns) are tested by what they are mostly about.
    for row, term in enumerate(equations):
        owners[term.name] = problem.fields[int(np.argmax(scores[row]))]
    for row, column in zip(*linear_sum_assignment(-scores), strict=True):
        owners[equations[row].name] = problem.fields[column]
    return owners


def _score(problem: Problem, term: Term, field: str) -> float:
    """How much an equation is about a field: the order of its derivative along an axis with initial values, which
    counts most, and its highest order."""
    symbols = [s for s in term.expression.fields if s.name == field]
    if not symbols:
        return -1e3
    marching = [name for name in problem.domain if _marches(problem, name)]
    along = max((order_along(s.alpha, name) for s in symbols for name in marching), default=0)
    total = max(sum(n for _, n in s.alpha) for s in symbols)
    # A pure second derivative says more than a mixed one: in elasticity both fields are differentiated twice.
    pure = sum(1 for s in symbols if len(s.alpha) == 1 and s.alpha[0][1] == total)
    return 100.0 * along + 10.0 * total + pure


def _marches(problem: Problem, axis: str) -> bool:
    """Whether all fields have conditions at the lower end of an axis and none elsewhere: time."""
    nodes: Mapping[str, list[float]] = {
        f: [c.trace.at for c in problem.linear_conditions if (c.field, c.axis) == (f, axis)] for f in problem.fields
    }
    lower = problem.domain.axis(axis).lower
    return all(at and all(a == lower for a in at) for at in nodes.values())


def _test_basis(
    problem: Problem, field: str, axis: Interval, name: str, count: int, rows: list[Term], *, whole: bool
) -> Basis:
    if axis.periodic:
        return Orthonormal(Fourier, axis, count)
    if whole or not is_balanced(problem, field, name):
        return Legendre(axis, count)
    traces = [c.trace for c in problem.linear_conditions if (c.field, c.axis) == (field, name)]
    linear = {c.name for c in problem.linear_conditions}
    # A test function vanishes where a free residual holds: its own terms of integration by parts are not known.
    free = [Trace(node, (1.0,)) for t in rows if t.name not in linear and t.face for node in t.face.nodes]
    return Orthonormal(Legendre, axis, count, (*traces, *free))
