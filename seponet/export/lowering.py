"""What each of JAX's primitive operations is in a frozen program. One that has no entry is told by its name.

Known operands are NumPy arrays, dynamic ones nodes; a complex value is a pair of two real ones.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .complex_numbers import Pair, lower_complex
from .movement import MOVEMENTS, convolve, move, scatter_add
from .program import COMBINATIONS, MAPS, Builder, Node, Value

SAME = {name: name for name in MAPS} | {"round": "round"}
TWO = {name: name for name in COMBINATIONS} | {"and": "mul", "or": "max", "xor": "ne"}
REDUCE = {
    "reduce_sum": "sum",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "prod",
    "reduce_and": "min",
    "reduce_or": "max",
}
UNCHANGED = ("stop_gradient", "optimization_barrier", "reduce_precision", "copy", "copy_p", "sharding_constraint")


def lower(builder: Builder, name: str, params: Mapping[str, Any], arguments: Sequence[Any]) -> list[Any]:
    """The values of a primitive operation, as nodes of a program."""
    name = "add" if name == "add_any" else name  # the sum of two parts of a derivative
    if name in UNCHANGED:
        return list(arguments)
    if name == "fft" or any(isinstance(a, Pair) or np.iscomplexobj(a) for a in arguments) or name == "complex":
        return [lower_complex(builder, name, params, arguments, lower)]
    arguments = [np.asarray(a, np.float64) if isinstance(a, np.ndarray) else a for a in arguments]
    if name in SAME:
        return [builder.map(SAME[name], arguments[0])]
    if name in TWO:
        return [builder.combine(TWO[name], *arguments)]
    if name in REDUCE:
        return [builder.reduce(REDUCE[name], arguments[0], params["axes"])]
    if name in MOVEMENTS:
        return [move(builder, name, params, arguments)]
    if name not in LOWERINGS:
        raise ValueError(
            f"the operator uses JAX's `{name}` on values that depend on the input, which a frozen program has no "
            "operation for; use what elementwise functions, sums of products and constant indices can express"
        )
    result = LOWERINGS[name](builder, params, *arguments)
    return result if isinstance(result, list) else [result]


def _integer_pow(builder: Builder, params: Mapping[str, Any], x: Node) -> Node:
    power = params["y"]
    result = builder.combine("mul", x, x) if abs(power) > 1 else x
    for _ in range(abs(power) - 2):
        result = builder.combine("mul", result, x)
    if abs(power) > 8:
        result = builder.combine("pow", x, np.array(float(abs(power))))
    if power == 0:
        return builder.add("constant", (np.ones(x.shape),), x.shape)
    return builder.combine("div", np.array(1.0), result) if power < 0 else result


def _convert(builder: Builder, params: Mapping[str, Any], x: Node) -> Node:
    kind = np.dtype(params["new_dtype"]).kind
    if kind == "b":
        return builder.combine("ne", x, np.array(0.0))
    return builder.map("trunc", x) if kind in "iu" else x


def _broadcast_in_dim(builder: Builder, params: Mapping[str, Any], x: Node, *_: Any) -> Node:
    shape, places = params["shape"], params["broadcast_dimensions"]
    ranked = [1] * len(shape)
    for size, place in zip(x.shape, places, strict=True):
        ranked[place] = size
    return builder.broadcast(builder.reshape(x, ranked), shape)


def _dot_general(builder: Builder, params: Mapping[str, Any], x: Value, y: Value) -> Node:
    ((sum_x, sum_y), (batch_x, batch_y)) = params["dimension_numbers"]
    letters = iter(map(chr, range(ord("a"), ord("z") + 1)))
    left, right = [""] * x.ndim if isinstance(x, np.ndarray) else [""] * len(x.shape), [""] * len(y.shape)
    for i, j in [*zip(batch_x, batch_y, strict=True), *zip(sum_x, sum_y, strict=True)]:
        left[i] = right[j] = next(letters)
    batch = "".join(left[i] for i in batch_x)
    free_x, free_y = ([i for i, letter in enumerate(side) if not letter] for side in (left, right))
    for side, free in ((left, free_x), (right, free_y)):
        for i in free:
            side[i] = next(letters)
    out = batch + "".join(left[i] for i in free_x) + "".join(right[i] for i in free_y)
    return builder.einsum(x, y, "".join(left), "".join(right), out)


def _split(builder: Builder, params: Mapping[str, Any], x: Node) -> list[Node]:
    axis, ends = params["axis"], np.cumsum(params["sizes"])
    parts = []
    for end, size in zip(ends, params["sizes"], strict=True):
        start, stop = [0] * len(x.shape), list(x.shape)
        start[axis], stop[axis] = int(end - size), int(end)
        parts.append(builder.slice(x, start, stop, [1] * len(x.shape)))
    return parts


def _stack(builder: Builder, params: Mapping[str, Any], *values: Value) -> Node:
    axis = params["axis"]
    return builder.concatenate([builder.reshape(v, (*v.shape[:axis], 1, *v.shape[axis:])) for v in values], axis)


def _cumsum(builder: Builder, params: Mapping[str, Any], x: Node) -> Node:
    axis, n = params["axis"], x.shape[params["axis"]]
    sums = np.tril(np.ones((n, n))) if params["reverse"] else np.triu(np.ones((n, n)))
    return builder.multiply(x, sums, axis)


def _logistic(builder: Builder, _: Mapping[str, Any], x: Node) -> Node:
    # (1 + tanh(x / 2)) / 2 overflows nowhere.
    half = builder.map("tanh", builder.combine("mul", x, np.array(0.5)))
    return builder.combine("mul", builder.combine("add", half, np.array(1.0)), np.array(0.5))


def _cbrt(builder: Builder, _: Mapping[str, Any], x: Node) -> Node:
    root = builder.combine("pow", builder.map("abs", x), np.array(1 / 3))
    return builder.combine("mul", builder.map("sign", x), root)


def _pad(builder: Builder, params: Mapping[str, Any], x: Node, value: Value) -> Node:
    config = params["padding_config"]
    if isinstance(value, np.ndarray) and all(i == 0 and low >= 0 and high >= 0 for low, high, i in config):
        return builder.pad(x, [int(c[0]) for c in config], [int(c[1]) for c in config], float(value))
    return move(builder, "pad", params, [x, value])


def _triangular_solve(builder: Builder, params: Mapping[str, Any], a: Value, b: Node) -> Node:
    if not isinstance(a, np.ndarray) or a.ndim != 2:
        raise ValueError("a linear system whose matrix depends on the input can't be frozen")
    # Linear in b, so it is a product with the solutions for unit vectors.
    with jax.enable_x64(True):
        count = a.shape[0]
        inverse = np.asarray(jax.lax.linalg.triangular_solve(a, np.eye(count), **params))
    return builder.multiply(b, inverse.T, 0) if params["left_side"] else builder.multiply(b, inverse, 1)


def _one(value: float) -> np.ndarray:
    return np.array(float(value))


LOWERINGS: Mapping[str, Callable[..., Any]] = {
    "integer_pow": _integer_pow,
    "convert_element_type": _convert,
    "broadcast_in_dim": _broadcast_in_dim,
    "dot_general": _dot_general,
    "split": _split,
    "stack": _stack,
    "cumsum": _cumsum,
    "logistic": _logistic,
    "cbrt": _cbrt,
    "pad": _pad,
    "triangular_solve": _triangular_solve,
    "conv_general_dilated": convolve,
    "scatter-add": scatter_add,
    "scatter_add": scatter_add,
    "row": lambda b, p, x: b.reshape(
        b.slice(x, [p["index"], *[0] * (len(x.shape) - 1)], [p["index"] + 1, *x.shape[1:]], [1] * len(x.shape)),
        x.shape[1:],
    ),
    "square": lambda b, _, x: b.combine("mul", x, x),
    "rsqrt": lambda b, _, x: b.combine("div", _one(1), b.map("sqrt", x)),
    "exp2": lambda b, _, x: b.map("exp", b.combine("mul", x, _one(math.log(2)))),
    "erfc": lambda b, _, x: b.combine("sub", _one(1), b.map("erf", x)),
    "not": lambda b, _, x: b.combine("eq", x, _one(0)),
    "reshape": lambda b, p, x, *_: b.reshape(x, p["new_sizes"]),
    "squeeze": lambda b, p, x: b.reshape(x, [n for i, n in enumerate(x.shape) if i not in p["dimensions"]]),
    "expand_dims": lambda b, p, x: b.reshape(x, np.expand_dims(np.empty(x.shape), p["dimensions"]).shape),
    "transpose": lambda b, p, x: b.transpose(x, p["permutation"]),
    "concatenate": lambda b, p, *values: b.concatenate(values, int(p["dimension"])),
    "slice": lambda b, p, x: b.slice(x, p["start_indices"], p["limit_indices"], p["strides"] or [1] * len(x.shape)),
    "select_n": lambda b, _, which, *cases: _select(b, which, cases),
    "clamp": lambda b, _, low, x, high: b.combine("min", b.combine("max", x, low), high),
}


def _select(builder: Builder, which: Value, cases: Sequence[Value]) -> Value:
    if len(cases) > 2:
        raise ValueError(f"a choice among {len(cases)} cases can't be frozen; nest choices between two")
    if len(cases) == 1:
        return cases[0]
    return builder.select(which, cases[1], cases[0])
