"""Equations on a mapped domain, rewritten along its box: the one place where physical symbols become those of the box.

A body asks for physical derivatives and coordinates. Its linear parts (`linear_parts.py`) become operators along the
box (`operators.py`), everything else it names is evaluated where the map puts a point. What comes out is an expression
of symbols of the box like any other, so that assembly, whitening, tests and Newton's method know nothing of maps.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from .._precision import double_precision
from .chart import Chart
from .expression import Expression, probe_shapes
from .linear_parts import Combination, fuse
from .operators import BoxOperator, box_operator, plain_operator
from .symbols import Symbol, Vocabulary


def pull_back(expression: Expression, chart: Chart, vocabulary: Vocabulary) -> Expression:
    """An expression of physical symbols as one of symbols of the box."""
    if expression.is_zero:
        return expression
    others = {s: _known(s, chart, vocabulary) for s in expression.symbols if s.kind != "field"}
    needed: dict[Symbol, None] = {}
    operators: list[tuple[Combination, BoxOperator]] = []
    if expression.fields:
        with double_precision():
            atoms = fuse(expression, probe_shapes(expression.symbols, vocabulary), jnp.float64).atoms
        operators = [(atom, box_operator(chart, atom)) for atom in atoms]
        fields = [Symbol("field", *derivative) for _, operator in operators for derivative in operator.derivatives]
        needed.update(dict.fromkeys(fields))
        needed.update(dict.fromkeys(symbol for _, operator in operators for symbol in operator.symbols))
    needed.update(dict.fromkeys(symbol for known in others.values() for symbol in known.symbols))
    symbols = tuple(needed)

    def function(*arguments: Array) -> Array:
        values = dict(zip(symbols, arguments, strict=True))
        known = {symbol: of_box(values) for symbol, of_box in others.items()}
        if not operators:
            return expression(known)
        fields = [values[symbol] for symbol in symbols if symbol.kind == "field"]
        shape = jnp.broadcast_shapes(*(value.shape for value in fields))
        shapes = {s: shape if s.kind == "field" else known[s].shape for s in expression.symbols}
        parts = fuse(expression, shapes, fields[0].dtype)
        atoms = {atom: jnp.broadcast_to(_matching(atom, operators)(values), shape) for atom in parts.atoms}
        return parts.evaluate(atoms, known)

    return Expression(symbols, function)


def physical_derivative(symbol: Symbol, chart: Chart | None) -> Expression:
    """A physical derivative of a field as an expression of the box: what a prediction evaluates."""
    if chart is None or not symbol.alpha:
        return Expression((symbol,), _same)
    operator = plain_operator(chart, ((symbol, 1.0),))
    fields = tuple(Symbol("field", *derivative) for derivative in operator.derivatives)
    symbols = (*fields, *operator.symbols)
    return Expression(symbols, lambda *arguments: operator(dict(zip(symbols, arguments, strict=True))))


def _matching(atom: Combination, operators: list[tuple[Combination, BoxOperator]]) -> BoxOperator:
    """The operator of an atom. Its numbers may be those of float32 here, and are those of float64 in the operator."""
    for known, operator in operators:
        same = [symbol for symbol, _ in known] == [symbol for symbol, _ in atom]
        if same and all(abs(a - b) <= 1e-5 * abs(b) for (_, a), (_, b) in zip(atom, known, strict=True)):
            return operator
    told = " + ".join(f"{weight:g} {symbol}" for symbol, weight in atom)
    raise ValueError(
        f"the equation combines {told} for arrays of this shape, and did not when it was defined: what it does may not "
        "depend on shapes"
    )


def _known(symbol: Symbol, chart: Chart, vocabulary: Vocabulary) -> Expression:
    """A coordinate or an input that a body names, as an expression of the box."""
    if symbol.kind == "coordinate":
        return chart.positions.get(symbol.name) or Expression((symbol,), _same)
    if vocabulary.is_physical(symbol.name):
        return Expression((Symbol("input", symbol.name, symbol.alpha, chart),), _same)
    if not symbol.alpha:
        return Expression((symbol,), _same)
    # A physical derivative of a function of axes of the box: derivatives along axes that it lacks are zero.
    operator = box_operator(chart, ((Symbol("field", symbol.name, symbol.alpha), 1.0),))
    axes = vocabulary.inputs[symbol.name].domain
    derivatives = [beta for _, beta in operator.derivatives if all(axis in axes for axis, _ in beta)]
    inputs = {Symbol("field", symbol.name, beta): Symbol("input", symbol.name, beta) for beta in derivatives}
    symbols = tuple(dict.fromkeys((*inputs.values(), *operator.symbols)))
    vector = vocabulary.inputs[symbol.name].components is not None

    def function(*arguments: Array) -> Array:
        values: dict[Symbol, Any] = dict(zip(symbols, arguments, strict=True))
        if vector:
            values = {s: value if s in inputs.values() else value[None] for s, value in values.items()}
        absent = {Symbol("field", symbol.name, beta): 0.0 for _, beta in operator.derivatives}
        return operator({**values, **absent, **{field: values[given] for field, given in inputs.items()}})

    return Expression(symbols, function)


def _same(value: Array) -> Array:
    return value
