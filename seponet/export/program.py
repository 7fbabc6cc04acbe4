"""Frozen programs: a short list of array operations, and the numbers they need.

A program is written for *one* function. Whoever runs it on many gives every value that depends on the inputs a leading
axis of functions; no operation mixes them, so a runtime only shifts its axes by one. `docs/frozen-format.md` defines
every operation.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FORMAT = 1
"""The number of the format; a reader refuses others."""

MAPS = [
    "neg",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "abs",
    "sign",
    "floor",
    "ceil",
    "round",
    "trunc",
    "erf",
]
COMBINATIONS = ["add", "sub", "mul", "div", "max", "min", "pow", "atan2", "rem", "eq", "ne", "lt", "le", "gt", "ge"]
REDUCTIONS = ["sum", "max", "min", "prod"]
"""The elementwise functions of one and of two numbers, and what sums up an axis. Comparisons give 0 or 1."""

MOST_EXACT = 2**24
"""Indices are stored as float32 like all numbers, which holds integers up to here exactly."""


@dataclass(frozen=True, eq=False)
class Node:
    """A value that depends on the inputs: the result of an operation, or an input itself.

    - `operation`: its kind; "input" for an input.
    - `arguments`: nodes, or constants as arrays.
    - `settings`: what else the operation needs, all JSON.
    - `shape`: for one function.
    """

    operation: str
    arguments: tuple[Any, ...]
    settings: Mapping[str, Any]
    shape: tuple[int, ...]


Value = Node | np.ndarray


@dataclass(frozen=True)
class Program:
    """A frozen program as it is written.

    - `header`: what is stored as JSON.
    - `numbers`: all constants, one after the other.
    """

    header: dict[str, Any]
    numbers: np.ndarray

    def described(self, about: Mapping[str, Any]) -> "Program":
        """The program with what a reader should know about it."""
        return Program({**self.header, "about": dict(about)}, self.numbers)

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> "Program":
        """The program with further arrays beside it, by name."""
        entries: dict[str, Any] = dict(self.header.get("arrays", {}))
        parts, size = [self.numbers], self.numbers.size
        for name, array in arrays.items():
            entries[name] = {"shape": list(array.shape), "offset": size}
            parts.append(np.asarray(array, np.float32).reshape(-1))
            size += array.size
        return Program({**self.header, "arrays": entries}, np.concatenate(parts))

    def constants(self) -> list[np.ndarray]:
        """The constants of the operations."""
        return [
            self.numbers[e["offset"] : e["offset"] + math.prod(e["shape"])].reshape(e["shape"])
            for e in self.header["constants"]
        ]

    def to_json(self) -> str:
        """The header as one line of JSON; NaN and infinity have no place in it."""
        return json.dumps(self.header, separators=(",", ":"), allow_nan=False)


@dataclass
class Builder:
    """Operations as they are added: equal ones are one, and what can be left out is.

    Constants are NumPy arrays in float64; `assemble` stores them in float32, equal ones once.
    """

    known: dict[Any, Node] = field(default_factory=dict)

    def input(self, name: str, shape: Sequence[int]) -> Node:
        return Node("input", (), {"name": name}, tuple(shape))

    def add(self, operation: str, arguments: Sequence[Value], shape: Sequence[int], **settings: Any) -> Node:
        shape = tuple(int(n) for n in shape)
        key = (operation, tuple(map(_identity, arguments)), json.dumps(settings, sort_keys=True), shape)
        if key not in self.known:
            self.known[key] = Node(operation, tuple(arguments), settings, shape)
        return self.known[key]

    def map(self, function: str, x: Node) -> Node:
        return self.add("map", (x,), x.shape, function=function)

    def combine(self, function: str, x: Value, y: Value) -> Node:
        """An elementwise function of two values whose shapes agree or have size one."""
        shape = np.broadcast_shapes(x.shape, y.shape)
        x, y = self._unspread([x, y], shape)
        if isinstance(y, np.ndarray) and y.size == 1:
            number = float(y.reshape(-1)[0])
            if (function in ("add", "sub") and number == 0) or (function in ("mul", "div") and number == 1):
                return self.broadcast(x, shape)
        return self.add("combine", (x, y), shape, function=function)

    def select(self, which: Value, yes: Value, no: Value) -> Node:
        """`yes` where `which` is not zero, else `no`."""
        shape = np.broadcast_shapes(which.shape, yes.shape, no.shape)
        return self.add("select", self._unspread([which, yes, no], shape), shape)

    def reshape(self, x: Value, shape: Sequence[int]) -> Any:
        shape = tuple(int(n) for n in shape)
        if isinstance(x, np.ndarray):
            return x.reshape(shape)
        if x.operation == "reshape":
            (x,) = x.arguments
        return x if x.shape == shape else self.add("reshape", (x,), shape)

    def transpose(self, x: Node, order: Sequence[int]) -> Node:
        shape = tuple(x.shape[i] for i in order)
        moved = [i for i in order if x.shape[i] > 1]
        if moved == sorted(moved):
            return self.reshape(x, shape)
        return self.add("transpose", (x,), shape, order=[int(i) for i in order])

    def broadcast(self, x: Value, shape: Sequence[int]) -> Any:
        """Axes of size one repeated; the rank stays."""
        shape = tuple(int(n) for n in shape)
        if isinstance(x, np.ndarray):
            return np.broadcast_to(x, shape)
        return x if x.shape == shape else self.add("broadcast", (x,), shape)

    def concatenate(self, values: Sequence[Value], axis: int) -> Node:
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        return self.add("concatenate", values, shape, axis=int(axis))

    def slice(self, x: Node, start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> Node:
        shape = tuple(len(range(*triple)) for triple in zip(start, stop, step, strict=True))
        if shape == x.shape:
            return x
        bounds = {name: [int(n) for n in ns] for name, ns in (("start", start), ("stop", stop), ("step", step))}
        return self.add("slice", (x,), shape, **bounds)

    def pad(self, x: Node, before: Sequence[int], after: Sequence[int], value: float) -> Node:
        shape = tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))
        if shape == x.shape:
            return x
        bounds = {"before": [int(n) for n in before], "after": [int(n) for n in after]}
        return self.add("pad", (x,), shape, **bounds, value=float(value))

    def take(self, x: Node, indices: np.ndarray) -> Node:
        """Entries of the flattened value, in the shape of the constant `indices`."""
        if x.shape and math.prod(x.shape) > MOST_EXACT:
            raise ValueError(
                f"an array of {math.prod(x.shape)} numbers is too large to be indexed; take a smaller grid"
            )
        if np.array_equal(indices.reshape(-1), np.arange(math.prod(x.shape))):
            return self.reshape(x, indices.shape)
        return self.add("take", (x, indices.astype(np.float64)), indices.shape)

    def reduce(self, function: str, x: Node, axes: Sequence[int]) -> Node:
        shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
        if all(x.shape[i] == 1 for i in axes):
            return self.reshape(x, shape)
        return self.add("reduce", (x,), shape, function=function, axes=[int(i) for i in axes])

    def einsum(self, x: Value, y: Value, left: str, right: str, out: str) -> Node:
        """The sum of products over the letters that are missing in `out`, each of which is in both operands."""
        sizes = {**dict(zip(left, x.shape, strict=True)), **dict(zip(right, y.shape, strict=True))}
        shape = tuple(sizes[letter] for letter in out)
        # An axis of size one says nothing: without it more contractions are plain products of matrices.
        left, right, kept = ("".join(c for c in letters if sizes[c] > 1) for letters in (left, right, out))
        x = self.reshape(x, [sizes[c] for c in left])
        y = self.reshape(y, [sizes[c] for c in right])
        if not left or not right:
            return self.reshape(self.combine("mul", *((x, y) if isinstance(x, Node) else (y, x))), shape)
        spec = _relabelled(f"{left},{right}->{kept}")
        product = self.add("einsum", (x, y), [sizes[c] for c in kept], equation=spec)
        return self.reshape(product, shape)

    def multiply(self, x: Node, matrix: np.ndarray, axis: int) -> Node:
        """A product with a matrix `[before, after]` along one axis."""
        letters = "".join(map(chr, range(ord("a"), ord("a") + len(x.shape))))
        return self.einsum(x, matrix, letters, letters[axis] + "z", letters[:axis] + "z" + letters[axis + 1 :])

    def _unspread(self, values: list[Any], shape: tuple[int, ...]) -> list[Any]:
        """Operands without the repetitions that broadcasting does anyway, if some operand has each axis whole."""
        # With the functions in front, shapes align at their last axes only if all values have the same rank.
        values = [self.reshape(v, (1,) * (len(shape) - len(v.shape)) + v.shape) for v in values]
        small = [self._core(value) for value in values]
        for i, value in enumerate(values):
            others = [s.shape for s in small if isinstance(s, Node)] or [()]
            if np.broadcast_shapes(*others) == shape:
                break
            small[i] = value
        return small

    def _core(self, value: Value) -> Value:
        if isinstance(value, Node):
            return value.arguments[0] if value.operation == "broadcast" else value
        for axis in range(value.ndim):
            if value.shape[axis] > 1 and np.array_equal(np.broadcast_to(np.take(value, [0], axis), value.shape), value):
                value = np.take(value, [0], axis)
        return value


def assemble(inputs: Sequence[Node], outputs: Mapping[str, Node]) -> Program:
    """The program that computes `outputs`: what they do not need is left out, and constants are stored once."""
    order: list[Node] = []
    seen: dict[int, int] = {id(node): i for i, node in enumerate(inputs)}
    for output in outputs.values():
        _visit(output, seen, order)
    constants: dict[tuple[Any, ...], int] = {}
    arrays: list[np.ndarray] = []
    entries: list[dict[str, Any]] = []
    size = 0

    def place(argument: Value) -> int:
        nonlocal size
        if isinstance(argument, Node):
            return numbers[id(argument)]
        stored = np.ascontiguousarray(argument, np.float32)
        if not np.all(np.isfinite(stored)):
            raise ValueError("a constant of the operator is not finite, so it can't be frozen; check the trained model")
        key = (stored.shape, stored.tobytes())
        if key not in constants:
            constants[key] = len(entries)
            entries.append({"shape": list(stored.shape), "offset": size})
            arrays.append(stored.reshape(-1))
            size += stored.size
        return -1 - constants[key]

    numbers = {id(node): i for i, node in enumerate([*inputs, *order])}
    operations = [
        {"operation": n.operation, **n.settings, "arguments": [place(a) for a in n.arguments], "shape": list(n.shape)}
        for n in order
    ]
    header = {
        "format": FORMAT,
        "inputs": [{"name": node.settings["name"], "shape": list(node.shape)} for node in inputs],
        "constants": entries,
        "operations": operations,
        "outputs": [
            {"name": name, "value": numbers[id(node)], "shape": list(node.shape)} for name, node in outputs.items()
        ],
    }
    return Program(header, np.concatenate(arrays) if arrays else np.zeros(0, np.float32))


def _visit(node: Node, seen: dict[int, int], order: list[Node]) -> None:
    """Append what a node needs, then the node; without recursion, which long programs would exhaust."""
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        current, ready = stack.pop()
        if id(current) in seen:
            continue
        if ready:
            seen[id(current)] = -1
            order.append(current)
            continue
        stack.append((current, True))
        stack.extend((a, False) for a in reversed(current.arguments) if isinstance(a, Node) and id(a) not in seen)


def _identity(argument: Value) -> Any:
    if isinstance(argument, Node):
        return id(argument)
    return argument.shape, argument.dtype.str, argument.tobytes()


def _relabelled(equation: str) -> str:
    """The same contraction with the letters a, b, c, ... in the order in which they come."""
    names: dict[str, str] = {}
    for letter in equation:
        if letter.isalpha():
            names.setdefault(letter, chr(ord("a") + len(names)))
    return "".join(names.get(c, c) for c in equation)
