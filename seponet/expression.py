"""Elementwise formulas whose argument names say what they need.

`lambda s_t, s_xx, u: s_t - s_xx - u` asks for two derivatives of the field `s` and for the input `u`; a coordinate is
asked for by its own name. An `Expression` is such a function together with its parsed arguments.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .domain import Domain, MultiIndex, add, multi_index
from .functions import Space
from .hints import nearest


@dataclass(frozen=True)
class Symbol:
    """One argument: a field or an input with a derivative, or a coordinate."""

    kind: Literal["field", "input", "coordinate"]
    name: str
    alpha: MultiIndex = ()

    def __str__(self) -> str:
        suffix = "".join(axis * n for axis, n in self.alpha)
        return f"{self.name}_{suffix}" if suffix else self.name


@dataclass(frozen=True)
class Vocabulary:
    """The names that mean something: axes, fields and inputs."""

    domain: Domain
    fields: tuple[str, ...]
    inputs: Mapping[str, Space]

    def __post_init__(self) -> None:
        names = [*self.domain.names, *self.fields, *self.inputs]
        for name in (*self.fields, *self.inputs):
            if not name.isidentifier() or "_" in name:
                raise ValueError(
                    f"{name!r} can't name a field or an input: an identifier without underscores is needed, because "
                    "what follows an underscore is a derivative (`s_xx`)"
                )
            if names.count(name) > 1:
                raise ValueError(f"{name!r} names two things; axes, fields and inputs need names of their own")
        for name, space in self.inputs.items():
            for axis in space.domain:
                if axis not in self.domain:
                    raise ValueError(
                        f"input {name!r} is a function of {axis!r}, which is not an axis of the problem; "
                        f"the axes are {', '.join(self.domain)}"
                    )

    def parse(self, argument: str) -> Symbol:
        """The meaning of one argument name, or a ValueError that says what would have one."""
        head, underscore, suffix = argument.partition("_")
        if argument in self.domain:
            return Symbol("coordinate", argument)
        if head in self.domain:
            raise ValueError(f"`{argument}` differentiates the coordinate `{head}`; write its derivative as a number")
        if head not in self.fields and head not in self.inputs:
            near = nearest(head, [*self.fields, *self.inputs, *self.domain])
            hint = f"; did you mean `{near}{underscore}{suffix}`?" if near else "; write a constant as `self.name`"
            raise ValueError(f"`{argument}` means nothing here: {self._known()}{hint}")
        kind = "field" if head in self.fields else "input"
        if not underscore:
            return Symbol(kind, head)
        alpha = self.domain.parse_derivative(suffix)
        if alpha is None:
            strange = next((letter for letter in suffix if letter not in "".join(self.domain)), suffix)
            raise ValueError(
                f"`{argument}` differentiates along `{strange}`; the axes are {', '.join(self.domain)} "
                f"(write for instance `{head}_{self.domain.names[-1]}`)"
            )
        if kind == "input":
            own = self.inputs[head].domain
            for axis, _ in alpha:
                if axis not in own:
                    of = f"a function of {', '.join(own)}" if len(own) else "a constant"
                    raise ValueError(
                        f"`{argument}` is always zero: `{head}` is {of} and does not depend on `{axis}`; drop it"
                    )
        return Symbol(kind, head, alpha)

    def _known(self) -> str:
        parts = [f"the fields are {', '.join(self.fields)}"]
        if self.inputs:
            parts.append(f"the inputs {', '.join(self.inputs)}")
        parts.append(f"the axes {', '.join(self.domain)}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Expression:
    """An elementwise function of symbols."""

    symbols: tuple[Symbol, ...]
    function: Callable[..., Array]
    is_zero: bool = False

    @classmethod
    def parse(cls, function: Callable[..., Array], vocabulary: Vocabulary, label: str) -> "Expression":
        """Read the argument names of `function`; `label` says in errors whose body it is."""
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
        moving = [_differentiate(symbol, axis, inputs) for symbol in self.symbols]
        extra = tuple(dict.fromkeys(m for m in moving if isinstance(m, Symbol) and m not in self.symbols))
        symbols = self.symbols + extra

        def derivative(*arguments: Array) -> Array:
            known = dict(zip(symbols, arguments, strict=True))
            primals = arguments[: len(self.symbols)]
            tangents = tuple(
                known[m] if isinstance(m, Symbol) else jnp.full_like(p, m) for m, p in zip(moving, primals, strict=True)
            )
            if not primals:
                return jnp.zeros_like(self.function())
            # The tangent of an argument may be larger than the argument only through broadcasting.
            primals = tuple(
                jnp.broadcast_to(p, jnp.broadcast_shapes(p.shape, t.shape))
                for p, t in zip(primals, tangents, strict=True)
            )
            tangents = tuple(jnp.broadcast_to(t, p.shape) for p, t in zip(primals, tangents, strict=True))
            return jax.jvp(self.function, primals, tangents)[1]

        return Expression(symbols, derivative)

    def _check_elementwise(self, vocabulary: Vocabulary, label: str) -> None:
        full = (2, *range(3, 3 + len(vocabulary.domain)))
        shapes = [_probe_shape(symbol, vocabulary, full) for symbol in self.symbols]
        arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
        try:
            result = jax.eval_shape(self.function, *arguments)
        except Exception as error:
            raise ValueError(f"{label} fails on arrays of values: {error}") from error
        got = getattr(result, "shape", type(result).__name__)
        # A field has every axis, and so has what is computed from it; data may lack some.
        allowed = [(m,) if self.fields else (1, m) for m in full]
        rank_kept = isinstance(got, tuple) and (not self.symbols or len(got) == len(full))
        if not rank_kept or any(n not in m for n, m in zip(reversed(got), reversed(allowed), strict=False)):
            raise ValueError(
                f"{label} must be elementwise: given arrays of shape {full} it must return that shape, but it returned "
                f"{got}; leave sums, means and stacking to the library and return one residual"
            )


def _differentiate(symbol: Symbol, axis: str, inputs: Mapping[str, Space]) -> Symbol | float:
    if symbol.kind == "coordinate":
        return 1.0 if symbol.name == axis else 0.0
    if symbol.kind == "input" and axis not in inputs[symbol.name].domain:
        return 0.0
    return Symbol(symbol.kind, symbol.name, add(symbol.alpha, multi_index(**{axis: 1})))


def _probe_shape(symbol: Symbol, vocabulary: Vocabulary, full: tuple[int, ...]) -> tuple[int, ...]:
    if symbol.kind == "field":
        return full
    sizes = dict(zip(vocabulary.domain, full[1:], strict=True))
    if symbol.kind == "coordinate":
        return (1, *(n if axis == symbol.name else 1 for axis, n in sizes.items()))
    space = vocabulary.inputs[symbol.name]
    shape = (full[0], *(n if axis in space.domain else 1 for axis, n in sizes.items()))
    return shape if space.components is None else (space.components, *shape)
