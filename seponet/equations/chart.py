r"""The map of a mapped domain and the chain rule: physical derivatives as combinations of derivatives along the box.

With $J_{ka} = \partial X^k / \partial\xi_a$, its inverse $A_{ak} = \partial\xi_a / \partial x_k$ and
$H^k_{ac} = \partial^2 X^k / \partial\xi_a \partial\xi_c$,

$$s_i = \sum_a A_{ai}\, s_{,a}, \qquad
  s_{ij} = \sum_{ac} A_{ai} A_{cj} \Big( s_{,ac} - \sum_k H^k_{ac}\, s_k \Big),$$

and higher orders by recursion, $s_{i\alpha} = \sum_a A_{ai}\, \partial_a(s_\alpha)$. Where the map depends on inputs or
on time, J and H are total derivatives (`Expression.differentiate`), so the same formulas hold: a coordinate that the
map keeps, such as t, has $A_{at} = -\sum_k A_{ak} X^k_t$.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from itertools import combinations_with_replacement
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..derivatives import MultiIndex, compose, multi_index
from ..functions import Functions, Space
from ..locations import Evaluable, Location, Points
from ..mapped import Mapped, arguments
from .expression import Expression
from .symbols import Symbol, Vocabulary

Values = Mapping[Symbol, Any]
"""Values of the symbols that a map is made of: coordinates of the box, and inputs with derivatives."""

Coefficients = dict[MultiIndex, Any]
"""For derivatives along the box the factors with which they are summed; what is zero identically is left out."""


class Chart:
    """A map as expressions of the coordinates of the box and of inputs.

    **Arguments:**

    - `domain`: the mapped domain.
    - `inputs`: the spaces of all inputs; the map may name those that are functions of axes of the box.
    """

    def __init__(self, domain: Mapped, inputs: Mapping[str, Space]) -> None:
        self.domain, self.inputs = domain, dict(inputs)
        boxed = {name: space for name, space in inputs.items() if all(axis in domain for axis in space.domain)}
        for name, function in domain.coordinates:
            for argument in arguments(function):
                if argument in inputs and argument not in boxed:
                    raise ValueError(
                        f"the coordinate {name!r} depends on the input {argument!r}, a function of the coordinates "
                        f"{', '.join(inputs[argument].domain)}; a shape is a number, or a function of axes of the box "
                        f"({', '.join(domain)})"
                    )
        vocabulary = Vocabulary(domain.box, (), boxed)
        self.mapped = tuple(name for name, _ in domain.coordinates)
        self.positions = {
            name: Expression.parse(function, vocabulary, f"the coordinate {name!r}")
            for name, function in domain.coordinates
        }
        self.kept = tuple(axis for axis in domain if axis not in domain.replaced)
        self._rates: dict[tuple[str, MultiIndex], Expression] = {}

    @property
    def shapes(self) -> tuple[str, ...]:
        """The inputs that the map depends on."""
        symbols = [symbol for expression in self.positions.values() for symbol in expression.symbols]
        return tuple(dict.fromkeys(symbol.name for symbol in symbols if symbol.kind == "input"))

    def rate(self, name: str, alpha: MultiIndex) -> Expression:
        """A total derivative of a coordinate along axes of the box."""
        if not alpha:
            return self.positions[name]
        if (name, alpha) not in self._rates:
            (axis, n), *rest = alpha
            lower = multi_index(**(dict(rest) | {axis: n - 1}))
            self._rates[name, alpha] = self.rate(name, lower).differentiate(axis, self.inputs)
        return self._rates[name, alpha]

    def symbols(self, order: int) -> tuple[Symbol, ...]:
        """The symbols in the derivatives of the map up to an order."""
        found: dict[Symbol, None] = {}
        for n in range(order + 1):
            for axes in combinations_with_replacement(self.domain.names, n):
                alpha = multi_index(**{axis: axes.count(axis) for axis in axes})
                for name in self.mapped:
                    found.update(dict.fromkeys(self.rate(name, alpha).symbols))
        return tuple(found)

    def moves_with(self, axis: str) -> bool:
        """Whether the map depends on an axis: directly, or through an input."""
        return any(not self.rate(name, multi_index(**{axis: 1})).is_zero for name in self.mapped)

    def coefficients(self, alpha: MultiIndex, values: Values, jet: "Jet | None" = None) -> Coefficients:
        """A physical derivative as a combination of derivatives along the box."""
        jet = Jet(self, values) if jet is None else jet
        factors = [name for name, n in alpha for _ in range(n)]
        if not factors:
            return {(): 1.0}
        if len(factors) == 1:
            return _without_zeros({multi_index(**{a: 1}): jet.inverse(a, factors[0]) for a in self.domain})
        if len(factors) == 2:
            return self._second(factors[0], factors[1], jet)
        return self._higher(factors, values, jet)

    def _second(self, i: str, j: str, jet: "Jet") -> Coefficients:
        total: Coefficients = {}
        curvature: dict[str, Any] = dict.fromkeys(self.mapped, 0.0)
        for a in self.domain:
            for c in self.domain:
                product = _times(jet.inverse(a, i), jet.inverse(c, j))
                beta = compose(multi_index(**{a: 1}), multi_index(**{c: 1}))
                total[beta] = _plus(total.get(beta, 0.0), product)
                for k in self.mapped:
                    curvature[k] = _plus(curvature[k], _times(product, jet.rate(k, beta)))
        for b in self.domain:
            beta = multi_index(**{b: 1})
            for k in self.mapped:
                total[beta] = _plus(total.get(beta, 0.0), _times(-1.0, curvature[k], jet.inverse(b, k)))
        return _without_zeros(total)

    def _higher(self, factors: list[str], values: Values, jet: "Jet") -> Coefficients:
        first, rest = factors[0], factors[1:]
        alpha = multi_index(**{name: rest.count(name) for name in rest})
        symbols = self.symbols(len(rest))
        total: Coefficients = {}
        for beta, coefficient in self.coefficients(alpha, values, jet).items():
            lower = Expression(
                symbols, lambda *v, beta=beta: self._lower(alpha, beta, dict(zip(symbols, v, strict=True)))
            )
            for a in self.domain:
                if _is_zero(jet.inverse(a, first)):
                    continue
                higher = compose(beta, multi_index(**{a: 1}))
                total[higher] = _plus(total.get(higher, 0.0), _times(jet.inverse(a, first), coefficient))
                slope = lower.differentiate(a, self.inputs)
                if not slope.is_zero:
                    total[beta] = _plus(total.get(beta, 0.0), _times(jet.inverse(a, first), slope(values)))
        return _without_zeros(total)

    def _lower(self, alpha: MultiIndex, beta: MultiIndex, values: Values) -> Array:
        return jnp.asarray(self.coefficients(alpha, values).get(beta, 0.0))

    def volume(self, functions: Mapping[str, Evaluable], where: Location) -> Array:
        """The volume element |det J|, with the rank of the location."""
        values = {symbol: symbol.evaluate(functions, where) for symbol in self.symbols(1)}
        return jnp.abs(full_rank(Jet(self, values).determinant(), where))

    def determinant(self, functions: Mapping[str, Evaluable], where: Location) -> Array:
        """det J with its sign."""
        values = {symbol: symbol.evaluate(functions, where) for symbol in self.symbols(1)}
        return full_rank(Jet(self, values).determinant(), where)

    def locate(self, functions: Mapping[str, Evaluable], where: Location) -> dict[str, Array]:
        """The coordinates of a location, by name: those of the map, and the axes that it keeps."""
        located = {axis: where.coordinate(axis) for axis in self.kept}
        for name, expression in self.positions.items():
            values = {symbol: symbol.evaluate(functions, where) for symbol in expression.symbols}
            located[name] = full_rank(expression(values), where)
        return located

    @cached_property
    def compiled_locate(self) -> Callable[[Mapping[str, Evaluable], Location], dict[str, Array]]:
        """`locate`, compiled once for each kind of location."""
        return jax.jit(lambda functions, where: self.locate(functions, where))

    def evaluate_input(
        self, functions: Mapping[str, Evaluable], name: str, alpha: MultiIndex, where: Location
    ) -> Array:
        """The derivative of an input that is a function of coordinates, where the map puts a location."""
        given = functions[name]
        if not isinstance(given, Functions):
            raise ValueError(f"input {name!r} is a function of coordinates and must be given as Functions")
        axes = given.space.domain.names
        located = self.locate(functions, where)
        shape = jnp.broadcast_shapes(*(located[axis].shape for axis in axes), (1, *where.shape))
        points = tuple(jnp.broadcast_to(located[axis], shape).reshape(shape[0], -1) for axis in axes)
        shared = Points(axes, tuple(p[0] for p in points))
        values = given(shared, alpha) if shape[0] == 1 else given.each(points, alpha)
        return values.reshape(*values.shape[:-1], *where.shape)

    def input_rates(self, symbol: Symbol, axis: str) -> Sequence[tuple[Symbol, Expression]]:
        """The derivative along the box of such an input: sum over coordinates of f_k dX^k/dxi_a."""
        pairs: list[tuple[Symbol, Expression]] = []
        for name in self.inputs[symbol.name].domain:
            if name in self.mapped:
                rate = self.rate(name, multi_index(**{axis: 1}))
            else:
                rate = Expression.constant(1.0 if name == axis else 0.0)
            if not rate.is_zero:
                alpha = compose(symbol.alpha, multi_index(**{name: 1}))
                pairs.append((Symbol("input", symbol.name, alpha, self), rate))
        return pairs


class Jet:
    """The derivatives of a map at given values of its symbols, each computed when it is first asked for."""

    def __init__(self, chart: Chart, values: Values) -> None:
        self.chart, self.values = chart, values
        self.rate = cache(self._rate)
        self.inverse = cache(self._inverse)
        self.determinant = cache(self._determinant)

    def _rate(self, name: str, alpha: MultiIndex) -> Any:
        """A derivative of a coordinate of the map; the number 0 if it vanishes identically."""
        expression = self.chart.rate(name, alpha)
        return 0.0 if expression.is_zero else expression(self.values)

    def _block(self, name: str, axis: str) -> Any:
        return self.rate(name, multi_index(**{axis: 1}))

    def _minor(self, names: tuple[str, ...], axes: tuple[str, ...]) -> Any:
        """The determinant of some rows and columns of J, by expansion along the first row."""
        if not names:
            return 1.0
        total: Any = 0.0
        for n, axis in enumerate(axes):
            rest = self._minor(names[1:], (*axes[:n], *axes[n + 1 :]))
            total = _plus(total, _times(-1.0 if n % 2 else 1.0, self._block(names[0], axis), rest))
        return total

    def _determinant(self) -> Any:
        return self._minor(self.chart.mapped, self.chart.domain.replaced)

    def _inverse(self, axis: str, name: str) -> Any:
        """d(axis of the box) / d(coordinate)."""
        chart = self.chart
        if axis in chart.kept:
            return 1.0 if axis == name else 0.0
        if name in chart.kept:
            return _times(-1.0, _sum(_times(self.inverse(axis, k), self._block(k, name)) for k in chart.mapped))
        row, column = chart.domain.replaced.index(axis), chart.mapped.index(name)
        names = tuple(k for k in chart.mapped if k != name)
        axes = tuple(a for a in chart.domain.replaced if a != axis)
        minor = _times(math.pow(-1.0, row + column), self._minor(names, axes))
        return 0.0 if _is_zero(minor) else minor / self.determinant()


def full_rank(values: Any, where: Location) -> Array:
    """Values with the rank of a location; constants have none of their own."""
    array = jnp.asarray(values)
    return array.reshape((1,) * (1 + len(where.shape))) if array.ndim == 0 else array


def _is_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0.0


def _times(*factors: Any) -> Any:
    if any(_is_zero(factor) for factor in factors):
        return 0.0
    product: Any = 1.0
    for factor in factors:
        product = factor if isinstance(product, float) and product == 1.0 else product * factor
    return product


def _plus(first: Any, second: Any) -> Any:
    if _is_zero(first):
        return second
    return first if _is_zero(second) else first + second


def _sum(terms: Any) -> Any:
    total: Any = 0.0
    for term in terms:
        total = _plus(total, term)
    return total


def _without_zeros(coefficients: Coefficients) -> Coefficients:
    return {beta: value for beta, value in coefficients.items() if not _is_zero(value)}
