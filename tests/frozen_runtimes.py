"""The three runtimes of frozen programs, behind one call: a program and inputs by name, to outputs by name."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import numpy as np

from seponet.export.onnx import to_onnx
from seponet.export.program import Program
from seponet.frozen import FrozenOperator

Values = Mapping[str, np.ndarray]
NODE = shutil.which("node")

SCRIPT = """
const fs = require("fs"), { FrozenOperator } = require(process.argv[1]);
const { program, inputs, numbers } = JSON.parse(fs.readFileSync(0));
const operator = new FrozenOperator(program, Float32Array.from(numbers));
const list = (outputs) => Object.entries(outputs).map(([name, value]) => [name, [...value.data]]);
const results = inputs.map((values) => Object.fromEntries(list(operator.run(values))));
console.log(JSON.stringify(results));
"""


def run_numpy(program: Program, inputs: Values) -> dict[str, np.ndarray]:
    operator = FrozenOperator(program.header, program.numbers)
    found = operator(dict(inputs))
    return found if isinstance(found, dict) else {operator.fields[0]: found}


def run_onnx(program: Program, inputs: Values) -> dict[str, np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(to_onnx(program).SerializeToString())
    names = [output.name for output in session.get_outputs()]
    found = session.run(None, {name: np.asarray(v, np.float32) for name, v in inputs.items()})
    return {name: np.asarray(value) for name, value in zip(names, found, strict=True)}


def run_javascript(program: Program, inputs: Values) -> dict[str, np.ndarray]:
    """One function after the other, by Node."""
    assert NODE is not None
    count = len(next(iter(inputs.values()))) if inputs else 1
    rows = [{name: np.ravel(v[i]).tolist() for name, v in inputs.items()} for i in range(count)]
    given = json.dumps({"program": program.header, "numbers": program.numbers.tolist(), "inputs": rows})
    runtime = Path(str(files("seponet.export").joinpath("page", "runtime.js")))
    done = subprocess.run([NODE, "-e", SCRIPT, str(runtime)], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shapes = {entry["name"]: entry["shape"] for entry in program.header["outputs"]}
    found = json.loads(done.stdout)
    return {name: np.array([row[name] for row in found]).reshape(count, *shape) for name, shape in shapes.items()}


RUNTIMES = {"numpy": run_numpy, "onnx": run_onnx, "javascript": run_javascript}
