"""Finding the linear parts of an equation, so that they are combined before the contraction.

Evaluating a derivative of a separable model on a grid costs one contraction. A combination like s_t - nu s_xx costs one
as well, if it is formed from the small one-dimensional factors instead of the large arrays of values.

**How linearity is proved.** The body is traced to a jaxpr, and every intermediate value is tracked as

    (linear combination of fields' derivatives, with numbers as coefficients) + (an array).

Fields start as combinations of themselves, inputs and coordinates as arrays. `add`, `sub` and `neg` act on both parts,
and so do `mul` and `div` by a number that is constant in the trace. Every other primitive, and every product with an
array (an input, a coordinate, a field), first evaluates the combinations that it consumes: those are the
*atoms*, and what is left at the end is the last one. Nothing is inferred from sampled numbers, so the rewriting is
exact.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend import core
from jaxtyping import Array

from .expression import Expression
from .symbols import Symbol

Combination = tuple[tuple[Symbol, float], ...]
"""sum of coefficient * derivative with numbers as coefficients, the first of which is 1."""


@dataclass(frozen=True)
class LinearParts:
    """A residual rewritten on top of its atoms: `evaluate` maps their values, and those of the other symbols, to it."""

    atoms: tuple[Combination, ...]
    evaluate: Callable[[Mapping[Combination, Array], Mapping[Symbol, Array]], Array]


def fuse(expression: Expression, shapes: Mapping[Symbol, tuple[int, ...]], dtype: Any) -> LinearParts:
    """The linear parts of an expression for arguments of these `shapes`: its atoms, each one contraction, and the
    elementwise rest."""
    symbols = expression.symbols
    arguments = [jax.ShapeDtypeStruct(shapes[symbol], dtype) for symbol in symbols]
    closed = jax.make_jaxpr(expression.function)(*arguments)
    atoms: dict[Combination, None] = {}

    # Interpreted once for shapes alone, only to see which combinations are contracted.
    def collect(given: Mapping[str, Array]) -> Array:
        def contract(combination: Combination) -> Array:
            atoms.setdefault(combination)
            return jnp.zeros(shapes[combination[0][0]], dtype)

        return _run(closed, symbols, contract, {s: given[str(s)] for s in symbols if s.kind != "field"})

    jax.eval_shape(collect, {str(s): a for s, a in zip(symbols, arguments, strict=True) if s.kind != "field"})

    def evaluate(values: Mapping[Combination, Array], given: Mapping[Symbol, Array]) -> Array:
        return _run(closed, symbols, values.__getitem__, given)

    return LinearParts(tuple(atoms), evaluate)


@dataclass(frozen=True)
class _Affine:
    """sum of `linear` plus `rest`; `rest` is an array, a number, or None for zero."""

    linear: dict[Symbol, float]
    rest: Any = None

    @property
    def is_number(self) -> bool:
        return not self.linear and isinstance(self.rest, float)

    def scale(self, factor: float) -> "_Affine":
        rest = None if self.rest is None else self.rest * factor
        return _Affine({symbol: c * factor for symbol, c in self.linear.items() if c * factor}, rest)

    def plus(self, other: "_Affine") -> "_Affine":
        linear = dict(self.linear)
        for symbol, c in other.linear.items():
            linear[symbol] = linear.get(symbol, 0.0) + c
        linear = {symbol: c for symbol, c in linear.items() if c}
        if self.rest is None or other.rest is None:
            return _Affine(linear, self.rest if other.rest is None else other.rest)
        return _Affine(linear, self.rest + other.rest)


def _run(
    closed: core.ClosedJaxpr,
    symbols: Sequence[Symbol],
    contract: Callable[[Combination], Array],
    given: Mapping[Symbol, Array],
) -> Array:
    def value(affine: _Affine) -> Any:
        if not affine.linear:
            return 0.0 if affine.rest is None else affine.rest
        # Sorted, and scaled to the leading coefficient 1: multiples of one combination share an atom.
        terms = sorted(affine.linear.items(), key=lambda item: str(item[0]))
        leading = terms[0][1]
        contracted = contract(tuple((symbol, c / leading) for symbol, c in terms))
        contracted = contracted if leading == 1.0 else contracted * leading
        return contracted if affine.rest is None else contracted + affine.rest

    arguments = [_Affine({s: 1.0}) if s.kind == "field" else _Affine({}, given[s]) for s in symbols]
    (result,) = _interpret(closed.jaxpr, closed.consts, arguments, value)
    shape = closed.out_avals[0].shape
    return jnp.broadcast_to(jnp.asarray(value(result)), shape)


def _interpret(
    jaxpr: Any, consts: Sequence[Any], arguments: Sequence[_Affine], value: Callable[[_Affine], Any]
) -> list[_Affine]:
    environment: dict[Any, _Affine] = {}

    def read(variable: Any) -> _Affine:
        if isinstance(variable, core.Literal):
            return _constant(variable.val)
        return environment[variable]

    environment.update(zip(jaxpr.invars, arguments, strict=True))
    environment.update((variable, _constant(c)) for variable, c in zip(jaxpr.constvars, consts, strict=True))
    # The chain rule of a map writes the same products again and again: what was computed before is not traced again.
    known: dict[Hashable, list[Any]] = {}
    names: dict[Any, Any] = {}
    for equation in jaxpr.eqns:
        key = _key(equation, names)
        if key in known:
            names.update(zip(equation.outvars, known[key], strict=True))
            environment.update((variable, environment[names[variable]]) for variable in equation.outvars)
            continue
        known[key] = equation.outvars
        results = _apply(equation, [read(variable) for variable in equation.invars], value)
        environment.update(zip(equation.outvars, results, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _key(equation: Any, names: Mapping[Any, Any]) -> Hashable:
    """Equal for two equations of which one repeats the other; `names` are the first ones of variables that do."""
    operands = []
    for variable in equation.invars:
        if isinstance(variable, core.Literal):
            # Zeros of either sign are not the same number.
            operands.append(
                (repr(variable.val), str(variable.aval)) if np.ndim(variable.val) == 0 else id(variable.val)
            )
        else:
            operands.append(names.get(variable, variable))
    key = (equation.primitive, tuple(operands), tuple(sorted(equation.params.items(), key=lambda item: item[0])))
    try:
        hash(key)
    except TypeError:
        return id(equation)
    return key


def _apply(equation: Any, operands: list[_Affine], value: Callable[[_Affine], Any]) -> list[_Affine]:
    name = equation.primitive.name
    shape = equation.outvars[0].aval.shape
    # A combination stands for an array of its fields' shape; an operation that broadcasts it needs its values.
    fits = all(not o.linear or v.aval.shape == shape for o, v in zip(operands, equation.invars, strict=True))
    if name in ("pjit", "jit"):
        inner = equation.params["jaxpr"]
        return _interpret(inner.jaxpr, inner.consts, operands, value)
    if any(operand.linear for operand in operands):
        if name in ("add", "add_any") and fits:
            return [operands[0].plus(operands[1])]
        if name == "sub" and fits:
            return [operands[0].plus(operands[1].scale(-1.0))]
        if name == "neg":
            return [operands[0].scale(-1.0)]
        if name == "mul" and (operands[0].is_number or operands[1].is_number):
            number, other = operands if operands[0].is_number else operands[::-1]
            return [other.scale(number.rest)]
        if name == "div" and operands[1].is_number:
            return [operands[0].scale(1.0 / operands[1].rest)]
        if name == "convert_element_type" and equation.invars[0].aval.dtype == equation.outvars[0].aval.dtype:
            return [operands[0]]
    elif name == "broadcast_in_dim" and operands[0].is_number:
        return [operands[0]]
    parameters = equation.primitive.get_bind_params(equation.params)
    values = [
        jnp.asarray(value(operand), variable.aval.dtype)
        for operand, variable in zip(operands, equation.invars, strict=True)
    ]
    values = [jnp.broadcast_to(v, variable.aval.shape) for v, variable in zip(values, equation.invars, strict=True)]
    outputs = equation.primitive.bind(*values, **parameters)
    return [_Affine({}, o) for o in (outputs if equation.primitive.multiple_results else [outputs])]


def _constant(value: Any) -> _Affine:
    is_number = (
        np.ndim(value) == 0 and not isinstance(value, Tracer) and np.issubdtype(np.result_type(value), np.floating)
    )
    return _Affine({}, float(value) if is_number else value)
