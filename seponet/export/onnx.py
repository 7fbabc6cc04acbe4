"""Frozen programs as ONNX models, for any ONNX runtime: inputs and outputs have the functions first, any number."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._files import replacing
from .program import Program

OPSET = 18
MAPS = {
    "neg": "Neg",
    "ceil": "Ceil",
    **{name: name.capitalize() for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")},
    **{name: name.capitalize() for name in ("asinh", "acosh", "atanh", "exp", "log", "sqrt", "abs", "sign")},
    **{name: name.capitalize() for name in ("floor", "round", "erf")},
}
COMBINATIONS = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "pow": "Pow"}
COMPARISONS = {"lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal"}
REDUCTIONS = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd"}
FUNCTIONS = "functions"


def write_onnx(program: Program, path: Path) -> None:
    """Write a program as an ONNX model. Needs the package `onnx`."""
    model = to_onnx(program)
    with replacing(path) as fresh:
        fresh.write_bytes(model.SerializeToString())


def to_onnx(program: Program) -> Any:
    """The ONNX model of a program, checked."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise ImportError("to write .onnx the package onnx is needed: pip install 'seponet[onnx]'") from None
    return Graph(program, onnx).model()


class Graph:
    """The nodes of an ONNX graph as they are added; every value that depends on the inputs has the functions first."""

    def __init__(self, program: Program, onnx: Any) -> None:
        self.onnx, self.program = onnx, program
        self.nodes: list[Any] = []
        self.constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.initializers: list[Any] = []
        header = program.header
        stored = program.constants()
        self.names = [entry["name"] for entry in header["inputs"]]
        self.shapes = [tuple(entry["shape"]) for entry in header["inputs"]]
        for entry in header["operations"]:
            integers = entry["operation"] == "take"
            arguments = [
                self.names[i] if i >= 0 else self.constant(stored[-1 - i].astype(np.int64 if integers else np.float32))
                for i in entry["arguments"]
            ]
            self.names.append(getattr(self, f"_{entry['operation']}")(entry, *arguments))
            self.shapes.append(tuple(entry["shape"]))

    def model(self) -> Any:
        helper, number = self.onnx.helper, self.onnx.TensorProto.FLOAT
        header = self.program.header
        for entry in header["outputs"]:
            # An output needs a node of its own, even where two are the same value.
            self.nodes.append(helper.make_node("Identity", [self.names[entry["value"]]], [entry["name"]]))
        inputs, outputs = (
            [helper.make_tensor_value_info(e["name"], number, [FUNCTIONS, *e["shape"]]) for e in header[key]]
            for key in ("inputs", "outputs")
        )
        graph = helper.make_graph(self.nodes, "operator", inputs, outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="seponet")
        model.ir_version = 9
        helper.set_model_props(model, {"about": json.dumps(header.get("about", {}))})
        self.onnx.checker.check_model(model)
        return model

    def constant(self, array: np.ndarray) -> str:
        array = np.ascontiguousarray(array)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = f"constant_{len(self.constants)}"
            self.initializers.append(self.onnx.numpy_helper.from_array(array, self.constants[key]))
        return self.constants[key]

    def integers(self, values: Sequence[int]) -> str:
        return self.constant(np.array(values, np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def add(self, kind: str, *arguments: str, **attributes: Any) -> str:
        name = f"value_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(arguments), [name], **attributes))
        return name

    def _map(self, entry: Mapping[str, Any], x: str) -> str:
        function = entry["function"]
        if function == "expm1":  # tanh(x/2) (exp(x) + 1), which keeps the digits of small x
            half = self.add("Tanh", self.add("Mul", x, self.number(0.5)))
            return self.add("Mul", half, self.add("Add", self.add("Exp", x), self.number(1)))
        if function == "log1p":  # 2 artanh(x / (2 + x)), for the same reason
            ratio = self.add("Div", x, self.add("Add", x, self.number(2)))
            return self.add("Mul", self.add("Atanh", ratio), self.number(2))
        if function == "trunc":
            return self.add("Mul", self.add("Sign", x), self.add("Floor", self.add("Abs", x)))
        return self.add(MAPS[function], x)

    def _combine(self, entry: Mapping[str, Any], x: str, y: str) -> str:
        function = entry["function"]
        if function in COMBINATIONS:
            return self.add(COMBINATIONS[function], x, y)
        if function == "rem":
            return self.add("Mod", x, y, fmod=1)
        if function == "atan2":
            return self._atan2(x, y)
        truth = self.add(COMPARISONS["eq" if function == "ne" else function], x, y)
        truth = self.add("Not", truth) if function == "ne" else truth
        return self.add("Cast", truth, to=self.onnx.TensorProto.FLOAT)

    def _atan2(self, y: str, x: str) -> str:
        """2 atan(y / (sqrt(x^2 + y^2) + x)), by whichever of the two half-angle formulas does not cancel."""
        length = self.add("Sqrt", self.add("Add", self.add("Mul", x, x), self.add("Mul", y, y)))
        right = self.add("Atan", self.add("Div", y, self.add("Add", length, x)))
        # Left of the axis: 2 atan((|s| - x) / y), whose sign is that of y; pi where y is zero.
        left = self.add("Atan", self.add("Div", self.add("Sub", length, x), y))
        angle = self.add("Where", self.add("Less", x, self.number(0)), left, right)
        angle = self.add("Mul", angle, self.number(2))
        zero = self.add("Equal", y, self.number(0))
        behind = self.add("Where", self.add("Less", x, self.number(0)), self.number(np.pi), self.number(0))
        return self.add("Where", zero, behind, angle)

    def _select(self, _: Mapping[str, Any], which: str, yes: str, no: str) -> str:
        return self.add("Where", self.add("Cast", which, to=self.onnx.TensorProto.BOOL), yes, no)

    def _constant(self, entry: Mapping[str, Any], x: str) -> str:
        return self._spread(x, entry["shape"])

    def _reshape(self, entry: Mapping[str, Any], x: str) -> str:
        return self.add("Reshape", x, self.integers([-1, *entry["shape"]]))

    def _transpose(self, entry: Mapping[str, Any], x: str) -> str:
        return self.add("Transpose", x, perm=[0, *(i + 1 for i in entry["order"])])

    def _broadcast(self, entry: Mapping[str, Any], x: str) -> str:
        return self.add("Expand", x, self.integers([1, *entry["shape"]]))

    def _concatenate(self, entry: Mapping[str, Any], *values: str) -> str:
        whole = []
        for i, value in zip(entry["arguments"], values, strict=True):
            shape = None if i >= 0 else self.program.header["constants"][-1 - i]["shape"]
            whole.append(value if shape is None else self._spread(value, shape))
        return self.add("Concat", *whole, axis=entry["axis"] + 1)

    def _slice(self, entry: Mapping[str, Any], x: str) -> str:
        axes = self.integers(range(1, len(entry["start"]) + 1))
        start, stop, step = (self.integers(entry[key]) for key in ("start", "stop", "step"))
        return self.add("Slice", x, start, stop, axes, step)

    def _pad(self, entry: Mapping[str, Any], x: str) -> str:
        widths = self.integers([0, *entry["before"], 0, *entry["after"]])
        return self.add("Pad", x, widths, self.number(entry["value"]))

    def _take(self, _: Mapping[str, Any], x: str, indices: str) -> str:
        return self.add("Gather", self.add("Flatten", x, axis=1), indices, axis=1)

    def _reduce(self, entry: Mapping[str, Any], x: str) -> str:
        return self.add(REDUCTIONS[entry["function"]], x, self.integers([i + 1 for i in entry["axes"]]), keepdims=0)

    def _einsum(self, entry: Mapping[str, Any], x: str, y: str) -> str:
        letters, out = entry["equation"].split("->")
        sides = [f"z{c}" if i >= 0 else c for c, i in zip(letters.split(","), entry["arguments"], strict=True)]
        return self.add("Einsum", x, y, equation=f"{','.join(sides)}->z{out}")

    def _spread(self, constant: str, shape: Sequence[int]) -> str:
        """A constant once for every function; how many there are is known from an input."""
        if not self.program.header["inputs"]:
            return self.add("Reshape", constant, self.integers([1, *shape]))
        count = self.add("Shape", self.names[0], start=0, end=1)
        whole = self.add("Concat", count, self.integers(shape), axis=0)
        return self.add("Expand", constant, whole)
