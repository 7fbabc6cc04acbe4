r"""Linear differential operators along the box: what a combination of physical derivatives becomes under a map.

$\sum_k w_k\, \partial^{\alpha_k} s = \sum_\beta C_\beta(\xi, u)\, \partial^\beta s$. Derivatives whose factors are
numbers, or multiples of one function, are combined before they are contracted: $s_{xx} + s_{yy}$ under a conformal map
is one function times $s_{,pp} + s_{,qq}$, one contraction as on a box.

**What is seen by sampling.** In polar coordinates the factor of the mixed derivative in $s_{xx} + s_{yy}$ vanishes, and
no factor depends on the angle; neither shows in the formulas. Factors of an *analytic* map (sums, products, quotients,
powers and elementary functions, no comparisons) are analytic, and an analytic function that vanishes at random points
vanishes. So for such maps zeros, constants, multiples and symbols without effect are found at random values of all
symbols, in float64. Any other map is taken as it is.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr
from jaxtyping import Array

from .._precision import double_precision
from ..derivatives import MultiIndex
from .chart import Chart, Jet, Values
from .linear_parts import Combination
from .symbols import Symbol

PROBES, TINY = 64, 1e-11
"""Random values of every symbol, and the relative size below which a number is rounding."""

ANALYTIC = frozenset(
    re.findall(
        r"\w+",
        """add sub mul div neg add_any square integer_pow pow sqrt rsqrt cbrt exp exp2 expm1 log log1p sin cos tan asin
        acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc copy convert_element_type broadcast_in_dim reshape
        squeeze expand_dims slice concatenate transpose reduce_sum dot_general iota pjit jit custom_jvp_call""",
    )
)
"""Primitives of analytic formulas."""

Derivative = tuple[str, MultiIndex]
"""A field, and a derivative of it along the box."""


Factors = Callable[[Values], dict[Derivative, Any]]
"""From values of a map's symbols to the factors of derivatives along the box."""


@dataclass(frozen=True)
class BoxOperator:
    """A linear differential operator as a sum over groups: a function of the map times a combination of derivatives
    along the box with numbers as factors.

    - `factors`: all factors, before they are grouped.
    - `groups`: for each the derivative whose factor is the function (None: the number one), and all derivatives of the
        group with their numbers.
    - `symbols`: the symbols of the map that the functions depend on.
    - `fixed`: those without effect, with a value to put in their place.
    """

    factors: Factors
    groups: tuple[tuple[Derivative | None, tuple[tuple[Derivative, float], ...]], ...]
    symbols: tuple[Symbol, ...]
    fixed: Mapping[Symbol, float]

    @property
    def derivatives(self) -> tuple[Derivative, ...]:
        return tuple(derivative for _, members in self.groups for derivative, _ in members)

    def functions(self, values: Values) -> dict[Derivative, Any]:
        """The functions of the groups that have one."""
        if all(leader is None for leader, _ in self.groups):
            return {}
        known: dict[Symbol, Any] = {symbol: values[symbol] for symbol in self.symbols}
        return self.factors({**known, **{symbol: jnp.asarray(value) for symbol, value in self.fixed.items()}})

    def __call__(self, values: Values) -> Array:
        """The value of the operator, from values of the map's symbols and of the derivatives along the box."""
        functions = self.functions(values)
        total: Any = None
        for leader, members in self.groups:
            inner: Any = None
            for (field, beta), number in members:
                value = values[Symbol("field", field, beta)]
                value = value if number == 1.0 else number * value
                inner = value if inner is None else inner + value
            part = inner if leader is None else functions[leader] * inner
            total = part if total is None else total + part
        return total


def box_operator(chart: Chart, combination: Combination) -> BoxOperator:
    """A combination of physical derivatives as an operator along the box."""
    order = max(sum(n for _, n in symbol.alpha) for symbol, _ in combination)
    return simplify(chart, lambda values: _factors(chart, combination, values), chart.symbols(order) if order else ())


def plain_operator(chart: Chart, combination: Combination) -> BoxOperator:
    """The same with every derivative by itself, without a look at the map: to be called while a program is traced."""
    order = max(sum(n for _, n in symbol.alpha) for symbol, _ in combination)
    symbols = chart.symbols(order) if order else ()
    keys: list[Derivative] = []

    def factors(values: Values) -> dict[Derivative, Any]:
        return _factors(chart, combination, values)

    def collect(arrays: list[Array]) -> None:
        keys[:] = factors(dict(zip(symbols, arrays, strict=True)))

    jax.eval_shape(collect, [jax.ShapeDtypeStruct(_shape(chart, symbol), jnp.float32) for symbol in symbols])
    return BoxOperator(factors, tuple((key, ((key, 1.0),)) for key in keys), symbols, {})


def simplify(
    chart: Chart, factors: Factors, symbols: tuple[Symbol, ...], fixed: Mapping[str, float] | None = None
) -> BoxOperator:
    """An operator with given factors, as simple as can be shown; on a face if some coordinates are `fixed`."""
    keys: list[Derivative] = []

    @jax.jit
    def compiled(arrays: list[Array]) -> list[Array]:
        found = factors(dict(zip(symbols, arrays, strict=True)))
        keys[:] = found
        return [jnp.asarray(factor) for factor in found.values()]

    def evaluate(values: Mapping[Symbol, Array]) -> dict[Derivative, np.ndarray]:
        arrays = compiled([values[symbol] for symbol in symbols])
        return {key: np.asarray(array) for key, array in zip(keys, arrays, strict=True)}

    with double_precision():
        sampled = _sample(chart, symbols, np.random.default_rng(0), fixed)
        found = evaluate(sampled)
        finite = np.all([np.broadcast_to(np.isfinite(f), (PROBES,)) for f in found.values()], axis=0)
        if not is_analytic(chart) or np.sum(finite) < PROBES // 4:
            return BoxOperator(factors, _as_they_are(found), symbols, {})
        rows = {d: np.broadcast_to(f, (PROBES,))[finite] for d, f in found.items()}
        kept = _without_rounding(chart, rows)
        idle: dict[Symbol, float] = {}
        for symbol in symbols:
            other = _sample(chart, [symbol], np.random.default_rng(2), fixed)
            moved = evaluate({**sampled, **other})
            if all(_equal(np.broadcast_to(moved[d], (PROBES,))[finite], rows[d]) for d in kept):
                idle[symbol] = float(np.asarray(sampled[symbol]).reshape(-1)[np.argmax(finite)])
    return BoxOperator(factors, _groups({d: rows[d] for d in kept}), tuple(s for s in symbols if s not in idle), idle)


@cache
def is_analytic(chart: Chart) -> bool:
    """Whether a map consists of elementary functions alone."""
    found: set[str] = set()
    for expression in chart.positions.values():
        arguments = [jax.ShapeDtypeStruct(_shape(chart, symbol), jnp.float32) for symbol in expression.symbols]
        found |= _primitives(jax.make_jaxpr(expression.function)(*arguments).jaxpr)
    return found <= ANALYTIC


def _primitives(program: Jaxpr) -> set[str]:
    found: set[str] = set()
    for equation in program.eqns:
        found.add(equation.primitive.name)
        for value in equation.params.values():
            if isinstance(value, ClosedJaxpr):
                found |= _primitives(value.jaxpr)
            elif isinstance(value, Jaxpr):
                found |= _primitives(value)
    return found


def _shape(chart: Chart, symbol: Symbol) -> tuple[int, ...]:
    components = chart.inputs[symbol.name].components if symbol.kind == "input" else None
    return (PROBES,) if components is None else (components, PROBES)


def _sample(
    chart: Chart, symbols: Sequence[Symbol], generator: np.random.Generator, fixed: Mapping[str, float] | None = None
) -> dict[Symbol, Array]:
    values: dict[Symbol, Array] = {}
    for symbol in symbols:
        if symbol.kind == "coordinate":
            axis = chart.domain.axis(symbol.name)
            drawn = axis.lower + axis.length * generator.uniform(0.05, 0.95, PROBES)
            at = (fixed or {}).get(symbol.name)
            values[symbol] = jnp.asarray(drawn if at is None else np.full(PROBES, float(at)))
        else:
            # Positive, as radii and heights are; values and derivatives at a point are independent numbers.
            values[symbol] = jnp.asarray(generator.uniform(0.5, 1.5, _shape(chart, symbol)))
    return values


def _factors(chart: Chart, combination: Combination, values: Values) -> dict[Derivative, Any]:
    total: dict[Derivative, Any] = {}
    jet = Jet(chart, values)
    for symbol, weight in combination:
        for beta, factor in chart.coefficients(symbol.alpha, values, jet).items():
            key = (symbol.name, beta)
            total[key] = weight * factor + total[key] if key in total else weight * factor
    return total


def _as_they_are(found: Mapping[Derivative, np.ndarray]) -> tuple[Any, ...]:
    """Each derivative a group of its own; only factors that are numbers by construction are told apart."""
    numbers = {d: float(f) for d, f in found.items() if f.ndim == 0}
    groups: list[Any] = [(None, tuple(numbers.items()))] if numbers else []
    return (*groups, *((d, ((d, 1.0),)) for d in found if d not in numbers))


def _without_rounding(chart: Chart, rows: Mapping[Derivative, np.ndarray]) -> list[Derivative]:
    """The derivatives whose factors are more than rounding, relative to the largest; each axis in units of its
    length."""
    units = {d: np.prod([chart.domain.axis(name).length ** -float(n) for name, n in d[1]]) for d in rows}
    largest = np.max([np.abs(row) * units[d] for d, row in rows.items()], axis=0)
    return [d for d, row in rows.items() if np.any(np.abs(row) * units[d] > TINY * largest)]


def _groups(rows: Mapping[Derivative, np.ndarray]) -> tuple[Any, ...]:
    numbers: list[tuple[Derivative, float]] = []
    leaders: dict[Derivative, list[tuple[Derivative, float]]] = {}
    for derivative, row in rows.items():
        if _is_constant(row):
            numbers.append((derivative, _rounded(float(row[0]))))
            continue
        for leader, members in leaders.items():
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = row / rows[leader]
            if _is_constant(ratios):
                members.append((derivative, _rounded(float(ratios[0]))))
                break
        else:
            leaders[derivative] = [(derivative, 1.0)]
    groups: list[Any] = [(None, tuple(numbers))] if numbers else []
    return (*groups, *((leader, tuple(members)) for leader, members in leaders.items()))


def _is_constant(row: np.ndarray) -> bool:
    return bool(np.all(np.isfinite(row)) and np.max(np.abs(row - row[0])) <= TINY * abs(row[0]))


def _rounded(number: float) -> float:
    """A number that is a whole one but for rounding."""
    return float(round(number)) if abs(number - round(number)) <= TINY * abs(number) else number


def _equal(row: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.all(np.isfinite(row)) and np.all(np.abs(row - other) <= 10 * TINY * np.abs(other)))
