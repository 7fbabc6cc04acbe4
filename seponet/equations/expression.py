"""Elementwise formulas whose argument names say what they need.

`lambda s_t, s_xx, u: s_t - s_xx - u` asks for two derivatives of the field `s` and for the input `u`; a coordinate is
asked for by its name. An `Expression` is such a function together with its parsed arguments.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr
from jaxtyping import Array

from ..derivatives import compose, multi_index
from ..functions import Space
from .elementwise import find_mixing, probe_lengths
from .symbols import Symbol, Vocabulary

ASKS_FOR_A_VALUE = ("The truth value of an array", "Only scalar arrays can be converted")
"""What JAX says of a function that needs one number and gets an array."""


@dataclass(frozen=True)
class Expression:
    """An elementwise function of symbols."""

    symbols: tuple[Symbol, ...]
    function: Callable[..., Array]
    is_zero: bool = False

    @classmethod
    def parse(cls, function: Callable[..., Array], vocabulary: Vocabulary, label: str) -> "Expression":
        """The expression that the argument names of `function` ask for; `label` says in errors whose body it is."""
        symbols: list[Symbol] = []
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise ValueError(f"{label} takes `*{parameter.name}`; name each argument, for instance `s, s_t, s_xx`")
            try:
                symbols.append(vocabulary.parse(parameter.name))
            except ValueError as error:
                raise ValueError(f"{label}: {error}") from None
        expression = cls(tuple(symbols), function)
        expression._check_elementwise(vocabulary, label)
        return expression

    @classmethod
    def constant(cls, value: float) -> "Expression":
        return cls((), lambda: jnp.asarray(value, float), is_zero=value == 0)

    def __call__(self, values: Mapping[Symbol, Array]) -> Array:
        return self.function(*(values[symbol] for symbol in self.symbols))

    @property
    def fields(self) -> tuple[Symbol, ...]:
        return tuple(symbol for symbol in self.symbols if symbol.kind == "field")

    def differentiate(self, axis: str, inputs: Mapping[str, Space]) -> "Expression":
        """The total derivative along `axis`, again an elementwise expression.

        By the chain rule, D f(u, u_x, x) = f_u u_x + f_{u_x} u_xx + f_x: a jvp whose tangents are the next derivatives
        of the arguments, which are symbols themselves.
        """
        rates = [_differentiate(symbol, axis, inputs) for symbol in self.symbols]
        if all(isinstance(rate, float) and rate == 0.0 for rate in rates):
            return Expression.constant(0.0)
        needed = [symbol for rate in rates if isinstance(rate, Expression) for symbol in rate.symbols]
        symbols = tuple(dict.fromkeys((*self.symbols, *needed)))

        def derivative(*arguments: Array) -> Array:
            values = dict(zip(symbols, arguments, strict=True))
            primals = arguments[: len(self.symbols)]
            tangents = tuple(
                rate(values) if isinstance(rate, Expression) else jnp.full_like(p, rate)
                for rate, p in zip(rates, primals, strict=True)
            )
            # A jvp wants primals and tangents of one shape, and an argument may lack axes that its derivative has.
            primals = tuple(
                jnp.broadcast_to(p, jnp.broadcast_shapes(p.shape, t.shape))
                for p, t in zip(primals, tangents, strict=True)
            )
            tangents = tuple(jnp.broadcast_to(t, p.shape) for p, t in zip(primals, tangents, strict=True))
            return jax.jvp(self.function, primals, tangents)[1]

        return Expression(symbols, derivative)

    def _check_elementwise(self, vocabulary: Vocabulary, label: str) -> None:
        # All axes have different lengths, so that a result with two of them exchanged, or one summed, shows.
        full = (2, *range(3, 3 + len(vocabulary.domain)))
        _, result = self._trace(vocabulary, full, label)
        returned = getattr(result, "shape", type(result).__name__)
        # A field has every axis, and so has what is computed from it; data may lack some.
        allowed = [(m,) if self.fields else (1, m) for m in full]
        rank_kept = isinstance(returned, tuple) and (not self.symbols or len(returned) == len(full))
        if not rank_kept or any(n not in m for n, m in zip(reversed(returned), reversed(allowed), strict=False)):
            raise ValueError(
                f"{label} must be elementwise: given arrays of shape {full} it must return that shape, but it returned "
                f"{returned}; leave sums, means and stacking to the library and return one residual"
            )
        if jnp.issubdtype(result.dtype, jnp.complexfloating):
            raise ValueError(
                f"{label} must be real, but it returned complex numbers; write real and imaginary part as two fields, "
                'fields = ("p", "q") for s = p + i q, with an equation or a condition for each part'
            )
        if self.fields and not jnp.issubdtype(result.dtype, jnp.floating):
            raise ValueError(
                f"{label} must be a real number that is differentiated, but it returned {result.dtype}; write a "
                "comparison as a factor, jnp.where(s > 0, a, b), of something that depends on the fields"
            )
        mixing = None
        for lengths in probe_lengths(len(full)):
            names = dict(zip(lengths, ("the functions", *vocabulary.domain), strict=True))
            program, _ = self._trace(vocabulary, tuple(names), label)
            mixing = find_mixing(program, names)
            if mixing is None:
                return
        raise ValueError(
            f"{label} must be elementwise, but it has {mixing}: write what holds at one point for one function; take "
            "derivatives as arguments (`s_x`), and integrals as fields of their own (I_x = s) or, of inputs, as "
            "`Derived` functions"
        )

    def _trace(self, vocabulary: Vocabulary, full: tuple[int, ...], label: str) -> tuple[Jaxpr, Any]:
        """The program of the function, and what it returns, for a field of the shape `full`."""
        shapes = [_probe_shape(symbol, vocabulary, full) for symbol in self.symbols]
        arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
        try:
            program, result = jax.make_jaxpr(self.function, return_shape=True)(*arguments)
        except jax.errors.TracerArrayConversionError as error:
            raise ValueError(
                f"{label} calls NumPy, which knows no derivatives; call jax.numpy instead (`import jax.numpy as jnp`, "
                "and `jnp.sin` for `np.sin`)"
            ) from error
        except Exception as error:
            if any(part in str(error) for part in ASKS_FOR_A_VALUE):
                raise ValueError(
                    f"{label} asks for the value of one of its arguments (`if`, `while`, `float`), but is called with "
                    "all values at once; choose between values by `jnp.where(condition, this, that)`"
                ) from error
            raise ValueError(f"{label} fails on arrays of values: {error}") from error
        return program.jaxpr, result


def _differentiate(symbol: Symbol, axis: str, inputs: Mapping[str, Space]) -> "Expression | float":
    if symbol.kind == "coordinate":
        return 1.0 if symbol.name == axis else 0.0
    if symbol.chart is not None:
        rates = symbol.chart.input_rates(symbol, axis)
        return sum_of_products(rates) if rates else 0.0
    if symbol.kind == "input" and axis not in inputs[symbol.name].domain:
        return 0.0
    following = Symbol(symbol.kind, symbol.name, compose(symbol.alpha, multi_index(**{axis: 1})))
    return Expression((following,), lambda value: value)


def sum_of_products(pairs: Sequence[tuple[Symbol, Expression]]) -> Expression:
    """sum of symbol * expression."""
    needed = [symbol for first, second in pairs for symbol in (first, *second.symbols)]
    symbols = tuple(dict.fromkeys(needed))

    def total(*arguments: Array) -> Array:
        values = dict(zip(symbols, arguments, strict=True))
        products = [values[first] * second(values) for first, second in pairs]
        return reduce(add, products)

    return Expression(symbols, total)


def probe_shapes(symbols: Sequence[Symbol], vocabulary: Vocabulary) -> dict[Symbol, tuple[int, ...]]:
    """Shapes of the values of symbols, for two functions and another number of points along every axis."""
    full = (2, *range(3, 3 + len(vocabulary.domain)))
    return {symbol: _probe_shape(symbol, vocabulary, full) for symbol in symbols}


def _probe_shape(symbol: Symbol, vocabulary: Vocabulary, full: tuple[int, ...]) -> tuple[int, ...]:
    if symbol.kind == "field":
        return full
    sizes = dict(zip(vocabulary.domain, full[1:], strict=True))
    if symbol.kind == "coordinate":
        if symbol.name not in sizes:  # a map's coordinate, which may depend on shapes and on all axes
            return full
        return (1, *(n if axis == symbol.name else 1 for axis, n in sizes.items()))
    space = vocabulary.inputs[symbol.name]
    axes = space.domain.names
    replaced = any(axis not in vocabulary.domain.physical_names for axis in axes)
    if vocabulary.is_physical(symbol.name) or (symbol.alpha and replaced):
        axes = tuple(sizes)
    shape = (full[0], *(n if axis in axes else 1 for axis, n in sizes.items()))
    return shape if space.components is None else (space.components, *shape)
