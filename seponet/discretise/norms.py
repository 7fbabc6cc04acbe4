"""L2 norms of solutions and of their differences, by quadrature."""

import math
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._program import compiled_briefly
from ..calculus.collocation import Nodes, make_collocation
from ..calculus.evaluate import evaluate, volume_element
from ..calculus.model import FixedCoefficients, Model
from ..equations.symbols import Symbol


def solution_norms(
    model: Model, inputs: Any, nodes: Nodes, c: Array, *, physical: bool = True
) -> Float[Array, " functions"]:
    """The L2 norms of the solutions, all fields together; on a mapped domain physical ones, or those over its box."""
    return _l2(model, inputs, nodes, _fields(model, inputs, nodes, c), physical=physical)


@compiled_briefly
def solution_distance(
    first: Model, inputs: Any, c: Array, second: Model, others: Any, other: Array, nodes: Nodes
) -> Float[Array, " functions"]:
    """The L2 distances of solutions of two models of a problem, each for inputs of its own, by quadrature."""
    ours, theirs = _fields(first, inputs, nodes, c), _fields(second, others, nodes, other)
    return _l2(first, inputs, nodes, [a - b for a, b in zip(ours, theirs, strict=True)])


def increment_norms(model: Model, inputs: Any, nodes: Nodes, c: Array) -> Float[Array, " functions"]:
    """The L2 norms of sums of trial functions, without the lift: of what a Newton step changes."""
    if model.problem.chart is None:
        return jnp.sqrt(jnp.sum(c**2, axis=tuple(range(1, c.ndim))))  # the bases are orthonormal
    where = make_collocation(model, nodes).where
    basis = model.basis_values(where, where, {None: frozenset({()})})[None]
    fields = [basis.contract(c, field, [(1.0, ())]) for field in range(len(model.problem.fields))]
    return _l2(model, inputs, nodes, fields)


def _fields(model: Model, inputs: Any, nodes: Nodes, c: Array) -> list[Array]:
    where = make_collocation(model, nodes).where
    symbols = [Symbol("field", field) for field in model.problem.fields]
    values = evaluate(FixedCoefficients(model, c), inputs, where, symbols)
    return [jnp.broadcast_to(v, (len(c), *where.shape)) for v in values.values()]


def _l2(
    model: Model, inputs: Any, nodes: Nodes, fields: list[Array], *, physical: bool = True
) -> Float[Array, " functions"]:
    collocation = make_collocation(model, nodes)
    squares = sum(value**2 for value in fields)
    element = volume_element(model.problem, inputs, collocation.where) if physical else None
    squares = squares if element is None else squares * element
    for weights in collocation.weights:
        assert weights is not None
        squares = jnp.tensordot(squares, weights, ((1,), (0,)), precision="highest")
    volume = math.prod(axis.length for _, axis in model.problem.domain.axes)
    return jnp.sqrt(volume * squares)
