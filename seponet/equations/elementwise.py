"""Elementwise formulas: a residual at one point, for one function, uses values of that point and that function alone.

A formula sees arrays `[functions, *points]`, so it could also sum over them: `s - jnp.mean(s)` has the shape of `s`,
and depends on which points and which other functions happen to be in the batch. The traced program of the formula shows
it. The functions and every axis of points get lengths of their own, by which they are recognised in each operation, and
no operation may act along them, nor lose one. Other axes, those of components and of tables of numbers, are free.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

Axes = Collection[int]
"""Axes of one operand along which an operation mixes elements."""


def probe_lengths(count: int) -> tuple[range, range]:
    """Two sets of lengths for the functions and the axes, `count` in all, without a length in common.

    A table of the user's may have one of them by chance; what mixes points does so with both.
    """
    return range(7, 7 + 4 * count, 4), range(30, 30 + 4 * count, 4)


def find_mixing(program: Jaxpr, names: Mapping[int, str], needed: Sequence[bool] | None = None) -> str | None:
    """The first operation of a traced formula that mixes points or functions, in words; None if there is none.

    **Arguments:**

    - `program`: the traced formula.
    - `names`: for each length that the functions or an axis have, what to call them.
    - `needed`: which of the program's results count; by default all.
    """
    for equation, results in _live(program, needed):
        inner = _inner_programs(equation)
        aligned = equation.primitive.name not in ("scan", "while")
        for body in inner:
            mixing = find_mixing(body, names, results if aligned and len(body.outvars) == len(results) else None)
            if mixing is not None:
                return mixing
        mixed = _mixed_lengths(equation, names, keeps_axes=not inner)
        if mixed:
            name = equation.primitive.name
            words, _ = ACTIONS.get(name, ("an operation", None))
            return f"{words} (`{name}`) along {', '.join(names[n] for n in names if n in mixed)}"
    return None


def _live(program: Jaxpr, needed: Sequence[bool] | None) -> list[tuple[JaxprEqn, list[bool]]]:
    """The operations that a result depends on, in order, and which of their own results are used.

    What is computed in vain does no harm: `jax.grad(lambda s: jnp.sum(F(s)))(s)` is F'(s), and leaves a sum behind.
    """
    flags = itertools.repeat(True) if needed is None else needed
    wanted = {id(v) for v, use in zip(program.outvars, flags, strict=False) if use}
    kept: list[tuple[JaxprEqn, list[bool]]] = []
    for equation in reversed(program.eqns):
        results = [id(v) in wanted for v in equation.outvars]
        if any(results):
            wanted |= {id(v) for v in equation.invars if not isinstance(v, Literal)}
            kept.append((equation, results))
    return kept[::-1]


def _inner_programs(equation: JaxprEqn) -> list[Jaxpr]:
    """The bodies of calls, branches and loops."""
    # How long a loop runs is no value of the result: a loop of single points asks there whether any is left to do.
    parameters = [value for name, value in equation.params.items() if name != "cond_jaxpr"]
    candidates = [v for value in parameters for v in (value if isinstance(value, tuple | list) else (value,))]
    closed = [v.jaxpr if isinstance(v, ClosedJaxpr) else v for v in candidates]
    # The function that a reduction or a scatter combines two numbers with is no body.
    is_call = equation.primitive.name not in ACTIONS or equation.primitive.name == "scan"
    return [v for v in closed if isinstance(v, Jaxpr)] if is_call else []


def _mixed_lengths(equation: JaxprEqn, names: Collection[int], *, keeps_axes: bool) -> set[int]:
    """The lengths of those axes of functions and points along which an operation acts, or which it loses or repeats."""
    operands = [_shape(v) for v in equation.invars]
    _, acts_along = ACTIONS.get(equation.primitive.name, ("", None))
    axes_of: Iterable[Axes] = () if acts_along is None else acts_along(equation)
    along = {shape[axis] for shape, axes in zip(operands, axes_of, strict=False) for axis in axes}
    mixed = along.intersection(names)
    if mixed or not keeps_axes:
        return mixed
    if equation.primitive.name == "reshape":
        kept = _groups(operands[0], names) == _groups(_shape(equation.outvars[0]), names)
        return set() if kept else set(operands[0]).intersection(names)
    most = {n: max((shape.count(n) for shape in operands), default=0) for n in names}
    # An array of numbers that is made here has no operand with axes of points.
    results = [_shape(v) for v in equation.outvars] if any(most.values()) else []
    return {n for shape in results for n in names if shape.count(n) > max(most[n], 1) or (most[n] and n not in shape)}


def _groups(shape: Sequence[int], names: Collection[int]) -> list[int]:
    """The axes of functions and points, and the number of elements between two of them."""
    groups = [1]
    for n in shape:
        groups.extend((-n, 1)) if n in names else groups.append(groups.pop() * n)
    return groups


def _shape(variable: Any) -> tuple[int, ...]:
    return variable.aval.shape


def _named(*parameters: str) -> Callable[[JaxprEqn], Iterator[Axes]]:
    """The axes that a parameter of the operation holds, one or several, for all operands alike."""

    def axes(equation: JaxprEqn) -> Iterator[Axes]:
        value = next(equation.params[name] for name in parameters if name in equation.params)
        return itertools.repeat((value,) if isinstance(value, int) else value)

    return axes


def _cut(equation: JaxprEqn) -> list[Axes]:
    """Axes of which a part is taken."""
    shape = _shape(equation.invars[0])
    taken = equation.params.get("slice_sizes") or _shape(equation.outvars[0])
    # A gather may take for each element of such an axis from that element alone.
    paired = getattr(equation.params.get("dimension_numbers"), "operand_batching_dims", ())
    return [[i for i, (n, m) in enumerate(zip(shape, taken, strict=True)) if n != m and i not in paired]]


def _written(equation: JaxprEqn) -> list[Axes]:
    """Axes of which a part is replaced."""
    numbers = equation.params.get("dimension_numbers")
    if numbers is not None:
        return [(*numbers.inserted_window_dims, *numbers.scatter_dims_to_operand_dims)]
    before, update = (_shape(v) for v in equation.invars[:2])
    return [[i for i, (n, m) in enumerate(zip(before, update, strict=True)) if n != m]]


def _padded(equation: JaxprEqn) -> list[Axes]:
    return [[i for i, widths in enumerate(equation.params["padding_config"]) if any(widths)]]


def _windowed(equation: JaxprEqn) -> Iterator[Axes]:
    return itertools.repeat([i for i, n in enumerate(equation.params["window_dimensions"]) if n != 1])


def _contracted(equation: JaxprEqn) -> Sequence[Axes]:
    return equation.params["dimension_numbers"][0]


def _transformed(equation: JaxprEqn) -> list[Axes]:
    return [[-1 - i for i in range(len(equation.params["fft_lengths"]))]]


def _looped(equation: JaxprEqn) -> list[Axes]:
    """The leading axes of what a loop goes through."""
    carried = equation.params["num_consts"] + equation.params["num_carry"]
    return [*[()] * carried, *[(0,)] * (len(equation.invars) - carried)]


def _last(count: float) -> Callable[[JaxprEqn], list[Axes]]:
    """The last few axes of every operand."""
    return lambda equation: [range(-int(min(count, len(_shape(v)))), 0) for v in equation.invars]


_REDUCED = _named("axes", "dimensions")

ACTIONS: Mapping[str, tuple[str, Callable[[JaxprEqn], Iterable[Axes]]]] = {
    "reduce_sum": ("a sum or mean", _REDUCED),
    "reduce_max": ("a maximum", _REDUCED),
    "reduce_min": ("a minimum", _REDUCED),
    "reduce_prod": ("a product of all elements", _REDUCED),
    **dict.fromkeys(("reduce_and", "reduce_or", "reduce_xor"), ("`all` or `any`", _REDUCED)),
    "reduce": ("a reduction", _REDUCED),
    "argmax": ("the place of a maximum", _REDUCED),
    "argmin": ("the place of a minimum", _REDUCED),
    "cumsum": ("a cumulative sum", _named("axis")),
    **dict.fromkeys(("cumprod", "cummax", "cummin", "cumlogsumexp"), ("a cumulative reduction", _named("axis"))),
    **dict.fromkeys(
        ("reduce_window", "reduce_window_sum", "reduce_window_max", "reduce_window_min"), ("a moving sum", _windowed)
    ),
    "sort": ("sorting", _named("dimension")),
    **dict.fromkeys(("top_k", "approx_top_k"), ("sorting", _last(1))),
    "rev": ("a reversal", _named("dimensions")),
    "split": ("splitting", _named("axis")),
    **dict.fromkeys(("slice", "dynamic_slice", "gather"), ("indexing or a shift", _cut)),
    **dict.fromkeys(
        ("dynamic_update_slice", "scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"),
        ("writing to single elements", _written),
    ),
    "concatenate": ("joining", _named("dimension")),
    "pad": ("padding", _padded),
    "reshape": ("a reshape", lambda _: ()),
    "dot_general": ("a product of matrices", _contracted),
    "conv_general_dilated": ("a convolution", _last(math.inf)),
    "fft": ("a Fourier transform", _transformed),
    "scan": ("a loop", _looped),
    **dict.fromkeys(
        ("cholesky", "lu", "qr", "geqrf", "householder_product", "eig", "eigh", "svd", "schur", "hessenberg"),
        ("linear algebra", _last(2)),
    ),
    **dict.fromkeys(("triangular_solve", "tridiagonal_solve", "tridiagonal"), ("linear algebra", _last(2))),
}
"""What JAX's primitives that mix elements are in plain words, and along which axes of their operands they act. Any
other primitive is taken to be elementwise as long as it keeps the axes, so that new ones in JAX do no harm."""
