"""Complex numbers as pairs of real ones, and discrete Fourier transforms as products with matrices."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from .program import Builder, Node, Value


@dataclass(frozen=True)
class Pair:
    """A complex value: its real and its imaginary part."""

    real: Value
    imag: Value

    @property
    def shape(self) -> tuple[int, ...]:
        return self.real.shape


Lower = Callable[[Builder, str, Mapping[str, Any], Sequence[Any]], list[Any]]


def lower_complex(
    builder: Builder, name: str, params: Mapping[str, Any], arguments: Sequence[Any], lower: Lower
) -> Any:
    """An operation of complex values, or one whose result is complex; `lower` does what acts on each part alike."""
    if name == "complex":
        return Pair(*(a if isinstance(a, Node) else np.asarray(a, np.float64) for a in arguments))
    if name == "fft":
        kind = getattr(params["fft_type"], "name", str(params["fft_type"]))
        return transform(builder, arguments[0], kind, params["fft_lengths"])
    pairs = [_pair(a) for a in arguments]
    if name in ("add", "sub"):
        (a, b) = pairs
        return Pair(_combine(builder, name, a.real, b.real), _combine(builder, name, a.imag, b.imag))
    if name == "mul":
        return _multiply(builder, *pairs)
    if name == "div":
        a, b = pairs
        square = _combine(
            builder, "add", _combine(builder, "mul", b.real, b.real), _combine(builder, "mul", b.imag, b.imag)
        )
        product = _multiply(builder, a, Pair(b.real, _negate(builder, b.imag)))
        return Pair(_combine(builder, "div", product.real, square), _combine(builder, "div", product.imag, square))
    (a, *_) = pairs
    if name == "real":
        return a.real
    if name == "imag":
        return a.imag
    if name == "conj":
        return Pair(a.real, _negate(builder, a.imag))
    if name == "neg":
        return Pair(_negate(builder, a.real), _negate(builder, a.imag))
    if name == "abs":
        squares = [_combine(builder, "mul", part, part) for part in (a.real, a.imag)]
        return _map(builder, "sqrt", _combine(builder, "add", *squares))
    if name == "exp":
        size = _map(builder, "exp", a.real)
        return Pair(*(_combine(builder, "mul", size, _map(builder, f, a.imag)) for f in ("cos", "sin")))
    if name == "convert_element_type":
        return a if np.dtype(params["new_dtype"]).kind == "c" else a.real
    if name in LINEAR:
        parts = []
        for part in ("real", "imag"):
            values = [
                getattr(p, part) if isinstance(x, Pair) or np.iscomplexobj(x) else x
                for p, x in zip(pairs, arguments, strict=True)
            ]
            parts.append(_part(builder, lower, name, params, values))
        return Pair(*parts)
    if name == "dot_general":
        return _contract(builder, params, pairs[0], pairs[1], lower)
    raise ValueError(
        f"the operator uses JAX's `{name}` of complex numbers, which a frozen program has no operation for"
    )


LINEAR = [
    "reshape",
    "squeeze",
    "expand_dims",
    "transpose",
    "broadcast_in_dim",
    "slice",
    "concatenate",
    "pad",
    "rev",
    "reduce_sum",
    "gather",
    "dynamic_slice",
    "split",
    "stack",
    "row",
    "select_n",
]
"""What acts on the real and on the imaginary part alike."""


def transform(builder: Builder, x: Any, kind: str, lengths: Sequence[int]) -> Any:
    """The discrete Fourier transform over the last axes, one after the other."""
    pair = _pair(x)
    first = len(pair.shape) - len(lengths)
    inner = list(range(first, len(pair.shape) - 1))
    last = len(pair.shape) - 1
    *outer, n = lengths
    if kind == "RFFT":
        pair = _along(builder, Pair(pair.real, np.zeros(pair.shape)), waves(n, n // 2 + 1, -1), last)
        for axis, count in zip(inner, outer, strict=True):
            pair = _along(builder, pair, waves(count, count, -1), axis)
        return pair
    if kind == "IRFFT":
        for axis, count in zip(inner, outer, strict=True):
            pair = _along(builder, pair, waves(count, count, 1) / count, axis)
        half = n // 2 + 1
        # Every mode but the first, and the last of an even number, stands for its conjugate too.
        counts = np.where((np.arange(half) == 0) | (2 * np.arange(half) == n), 1.0, 2.0)
        matrix = waves(n, half, 1).T * counts[:, None] / n
        real, imag = (
            _product(builder, part, m, last)
            for part, m in ((pair.real, np.real(matrix)), (pair.imag, -np.imag(matrix)))
        )
        return _combine(builder, "add", real, imag)
    sign = -1 if kind == "FFT" else 1
    for axis, count in zip([*inner, last], lengths, strict=True):
        pair = _along(builder, pair, waves(count, count, sign) / (1 if sign < 0 else count), axis)
    return pair


def waves(n: int, modes: int, sign: int) -> np.ndarray:
    """exp(sign 2 pi i j k / n), `[n, modes]`; the angle is reduced in integers."""
    return np.exp(sign * 2j * math.pi * (np.outer(np.arange(n), np.arange(modes)) % n) / n)


def _along(builder: Builder, x: Pair, matrix: np.ndarray, axis: int) -> Pair:
    a, b = (_product(builder, x.real, part, axis) for part in (np.real(matrix), np.imag(matrix)))
    if isinstance(x.imag, np.ndarray) and not np.any(x.imag):
        return Pair(a, b)
    c, d = (_product(builder, x.imag, part, axis) for part in (np.real(matrix), np.imag(matrix)))
    return Pair(_combine(builder, "sub", a, d), _combine(builder, "add", b, c))


def _product(builder: Builder, x: Value, matrix: np.ndarray, axis: int) -> Value:
    if isinstance(x, np.ndarray):
        return np.moveaxis(np.tensordot(x, matrix, ((axis,), (0,))), -1, axis)
    return builder.multiply(x, matrix, axis)


def _contract(builder: Builder, params: Mapping[str, Any], a: Pair, b: Pair, lower: Lower) -> Pair:
    def dot(x: Value, y: Value) -> Value:
        return _part(builder, lower, "dot_general", params, [x, y])

    real = _combine(builder, "sub", dot(a.real, b.real), dot(a.imag, b.imag))
    return Pair(real, _combine(builder, "add", dot(a.real, b.imag), dot(a.imag, b.real)))


def _part(builder: Builder, lower: Lower, name: str, params: Mapping[str, Any], values: list[Value]) -> Value:
    """One part of a complex value; if nothing in it depends on the input, it is a constant of zeros by and large."""
    if any(isinstance(v, Node) for v in values):
        return lower(builder, name, params, values)[0]
    with jax.enable_x64(True):
        primitive = jax.lax.dot_general_p if name == "dot_general" else getattr(jax.lax, f"{name}_p")
        return np.asarray(primitive.bind(*values, **params))


def _pair(value: Any) -> Pair:
    if isinstance(value, Pair):
        return value
    if isinstance(value, Node):
        return Pair(value, np.zeros(value.shape))
    return Pair(np.asarray(value.real, np.float64), np.asarray(value.imag, np.float64))


def _multiply(builder: Builder, a: Pair, b: Pair) -> Pair:
    real = _combine(builder, "sub", _combine(builder, "mul", a.real, b.real), _combine(builder, "mul", a.imag, b.imag))
    imag = _combine(builder, "add", _combine(builder, "mul", a.real, b.imag), _combine(builder, "mul", a.imag, b.real))
    return Pair(real, imag)


def _negate(builder: Builder, x: Value) -> Value:
    return np.asarray(-x) if isinstance(x, np.ndarray) else builder.map("neg", x)


def _map(builder: Builder, function: str, x: Value) -> Value:
    return np.asarray(getattr(np, function)(x)) if isinstance(x, np.ndarray) else builder.map(function, x)


NUMPY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


def _combine(builder: Builder, function: str, x: Value, y: Value) -> Value:
    """Constants are computed now, and products with zero are zero."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return np.asarray(NUMPY[function](x, y))
    shape = np.broadcast_shapes(x.shape, y.shape)
    zero = [isinstance(v, np.ndarray) and not np.any(v) for v in (x, y)]
    if function == "mul" and any(zero):
        return np.zeros(shape)
    if function in ("add", "sub") and zero[1]:
        return builder.broadcast(x, shape)
    if function == "add" and zero[0]:
        return builder.broadcast(y, shape)
    if function == "sub" and zero[0]:
        return builder.broadcast(_negate(builder, y), shape)
    return builder.combine(function, x, y)
