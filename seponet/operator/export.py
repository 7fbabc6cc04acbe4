"""An operator on one grid as a frozen program, and what a page needs besides: samples, presets, interpolants."""

import re
from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..derivatives import multi_index
from ..domain import Domain
from ..equations.describe import describe_equations
from ..equations.flow import flow_axes
from ..equations.problem import Problem
from ..export.program import Program
from ..export.trace import trace
from ..functions import Functions, SolenoidalField, Space, project
from ..functions.interpolant import interpolate
from ..locations import Grid
from .estimate import estimate
from .evaluator import sensors_of
from .facts import facts_of
from .input_range import InputRange, input_ranges, score

if TYPE_CHECKING:
    from .operator import Operator

POINTS = {1: (201,), 2: (101, 101), 3: (21, 49, 49)}
"""The points of a page along each axis that it shows, for as many axes."""

DRAWS = {0: 64, 1: 48, 2: 16}
"""Samples of the inputs that a page carries, for as many axes as the inputs have at most."""

LOOKED_AT = {0: 256, 1: 256, 2: 32}
"""Samples among which the presets are chosen, and that tell what is usual, for as many axes likewise."""

SUFFIXES = (".html", ".npz", ".onnx")


def check_path(path: Path) -> None:
    """Refuse a file that could not be written, before anything is computed."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"an operator is exported to a file that ends in {', '.join(SUFFIXES)}; got {path.name!r}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {path.absolute().parent} for {path.name}; make it first")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file")


def export(operator: "Operator", path: Path, coordinates: Mapping[str, Any]) -> Path:
    """Write an operator to a file; the suffix says as what."""
    check_path(path)
    if path.suffix == ".html":
        from ..export.html import write_page

        write_page(freeze_page(operator, coordinates), path)
    elif path.suffix == ".npz":
        from ..export.npz import write_npz

        write_npz(freeze(operator, coordinates), path)
    else:
        from ..export.onnx import write_onnx

        write_onnx(freeze(operator, coordinates), path)
    return path


def freeze(operator: "Operator", coordinates: Mapping[str, Any]) -> Program:
    """The frozen program of an operator: values at the sensors to fields on a grid.

    **Arguments:**

    - `coordinates`: for each axis its points, or one number; axes that are left out get `default_points`.
    """
    problem = operator.problem
    points = complete_points(problem.domain, coordinates)
    shapes = sensor_shapes(operator)

    def fields(values: dict[str, Array]) -> dict[str, Array]:
        return _named(problem.fields, operator.evaluate(values, **points))

    return trace(fields, shapes).described(_about(operator, points))


def freeze_page(operator: "Operator", coordinates: Mapping[str, Any]) -> Program:
    """The frozen program of a page: as `freeze`, and beside the fields what the page shows of the input and the error.

    A velocity without divergence is drawn as its vorticity, and a flow is shown as one.
    """
    problem = operator.problem
    physical = [name for name in problem.inputs if problem.vocabulary.is_physical(name)]
    if physical:
        raise ValueError(
            f"a page shows the box of a mapped domain, where {', '.join(physical)}, a function of coordinates, can't "
            "be drawn; export to .npz or .onnx"
        )
    points = complete_points(problem.domain, coordinates)
    shapes = sensor_shapes(operator)
    drawn = {name: Drawn(name, space, shapes[name]) for name, space in problem.inputs.items()}
    flow, trust = flow_axes(problem), Trust(operator)
    shown = {axis: _fine(problem.domain, axis, points) for axis in problem.domain}

    def outputs(values: dict[str, Array]) -> dict[str, Array]:
        sensed = {name: drawn[name].to_sensors(value) for name, value in values.items()}
        results = _named(problem.fields, operator.evaluate(sensed, **points))
        if flow is not None:
            x, y = flow
            p, q = problem.fields
            slopes = operator.evaluate(sensed, derivative=[f"{q}_{x}", f"{p}_{y}"], **points)
            results = {"vorticity": slopes[f"{q}_{x}"] - slopes[f"{p}_{y}"], **results}
        results |= trust.judge({name: value[None] for name, value in sensed.items()})
        for name, draw in drawn.items():
            if len(draw.space.domain):
                results[f"input:{name}"] = draw.interpolated(values[name], shown)
            if not draw.by_vorticity:
                results |= trust.nearest(name, values[name])
        return results

    program = trace(outputs, {name: draw.shape for name, draw in drawn.items()})
    about = _about(operator, points)
    quantities = [*([] if flow is None else ["vorticity"]), *problem.fields]
    about["quantities"] = quantities
    for name, draw in drawn.items():
        about["inputs"][name] |= draw.about() | {"shown": {a: shown[a].tolist() for a in draw.space.domain}}
    draws, presets = _draws(problem, drawn)
    about["presets"] = presets
    return program.described(about).with_arrays({f"draws:{name}": values for name, values in draws.items()})


class Drawn:
    """An input as a page draws it: by its values at the sensors, or a divergence-free velocity by its vorticity.

    **Arguments:**

    - `name`, `space`: of the input.
    - `shape`: of its values at the sensors, components first.
    """

    def __init__(self, name: str, space: Space, shape: tuple[int, ...]) -> None:
        self.name, self.space = name, space
        self.by_vorticity = isinstance(space, SolenoidalField)
        self.shape = shape[1:] if self.by_vorticity else shape
        self.counts = dict(zip(space.domain, self.shape[len(self.shape) - len(space.domain) :], strict=True))

    def to_sensors(self, values: Array) -> Array:
        """What is drawn, as values at the sensors."""
        if not self.by_vorticity:
            return values
        return self._velocity(values)(self.space.sensors(self.counts))[:, 0]

    def from_functions(self, functions: Functions) -> np.ndarray:
        """Sampled functions as they would be drawn, `[functions, *shape]`."""
        where = self.space.sensors(self.counts)
        if not self.by_vorticity:
            values = np.asarray(functions(where))
            return values if self.space.components is None else np.moveaxis(values, 0, 1)
        x, y = self.space.domain.names
        along_x, along_y = (np.asarray(functions(where, multi_index(**{axis: 1}))) for axis in (x, y))
        return along_x[1] - along_y[0]

    def interpolated(self, values: Array, points: Mapping[str, np.ndarray]) -> Array:
        """The function that the exact conditions see, on a finer grid."""
        where = Grid.of(self.space.domain, {axis: jnp.asarray(points[axis]) for axis in self.space.domain})
        components = None if self.by_vorticity else self.space.components
        plain = Plain(self.space.domain, components)
        values = interpolate(plain, values[None])(where)
        return values[:, 0] if components is not None else values[0]

    def about(self) -> dict[str, Any]:
        """What a page needs to know to draw it."""
        bounds = {key: getattr(self.space, key) for key in ("low", "high", "log") if hasattr(self.space, key)}
        label = f"vorticity of {self.name}" if self.by_vorticity else self.name
        return {"label": label, **{key: list(v) if isinstance(v, tuple) else v for key, v in bounds.items()}}

    def _velocity(self, vorticity: Array) -> Functions:
        """-Laplacian psi = vorticity, and the velocity is (psi_y, -psi_x)."""
        space = self.space
        assert isinstance(space, SolenoidalField)
        stream = project(vorticity[None], space.bases) * jnp.asarray(space.inverse_laplacian)[None]
        return Functions(space, stream)


class Trust:
    """How far an input lies outside of what the operator was trained on, and the estimated error if it is calibrated.

    Without a calibration the range of the inputs is taken from samples of the problem.
    """

    def __init__(self, operator: "Operator") -> None:
        self.model, self.calibration = operator.model, operator.calibration
        self.ranges: tuple[InputRange, ...] = ()
        if self.calibration is not None:
            self.ranges = self.calibration.ranges
        elif self.model.sensors:
            seen, others = (
                self.model.encode(operator.problem.sample(jax.random.key(i), LOOKED_AT[_rank(operator.problem)]))
                for i in (1, 2)
            )
            self.ranges = input_ranges(self.model, seen, others)

    def judge(self, sensor_values: Mapping[str, Array]) -> dict[str, Array]:
        """Error, upper value and score of one function, `[1, *sensors]` by name."""
        if self.calibration is not None:
            found = estimate(self.model, self.calibration, sensor_values)
            return {"error": found.error[0], "upper_95": found.upper_95[0], "score": found.score[0]}
        if not self.ranges:
            return {}
        inputs = self.model.problem.inputs
        seen = self.model.encode({name: interpolate(inputs[name], v) for name, v in sensor_values.items()})
        return {"score": score(self.ranges, seen, 1)[0]}

    def nearest(self, name: str, values: Array) -> dict[str, Array]:
        """A usual input near an unusual one: coordinates along the principal components, held within their range."""
        found = [r for r in self.ranges if r.name == name and len(r.components) and len(r.places) == values.size]
        if not found:
            return {}
        (seen,) = found
        count = len(seen.components)
        coordinates = jnp.matmul(seen.components, values.reshape(-1) - seen.mean, precision="highest")
        low, high = (seen.middle[:count] + sign * 0.98 * seen.width[:count] for sign in (-1, 1))
        held = jnp.clip(coordinates, low, high)
        longest = 0.98 * (seen.middle[-2] + seen.width[-2])
        held = held * jnp.minimum(1, longest / jnp.maximum(jnp.sqrt(jnp.sum(held**2)), 1e-12))
        sizes = 1 / jnp.sqrt(jnp.sum(seen.components**2, axis=1))
        moved = seen.mean + jnp.matmul(held * sizes, seen.directions, precision="highest")
        return {f"nearest:{name}": moved.reshape(values.shape)}


class Plain(Space):
    """Axes and components without a distribution, for interpolants of what is drawn."""

    def __init__(self, domain: Domain, components: int | None) -> None:
        self.domain, self.components = domain, components

    def draw(self, key: Any, n: int) -> Any:
        raise ValueError("these functions are drawn by hand")

    def evaluate(self, parameters: Any, where: Any, alpha: Any) -> Any:
        raise ValueError("these functions are interpolated first")


def sensor_shapes(operator: "Operator") -> dict[str, tuple[int, ...]]:
    """For each input the shape of one function's values at the sensors, components first."""
    counts = sensors_of(operator.problem, operator.model.sensors)
    return {
        name: (() if space.components is None else (space.components,)) + tuple(counts[name][a] for a in space.domain)
        for name, space in operator.problem.inputs.items()
    }


def complete_points(domain: Domain, coordinates: Mapping[str, Any]) -> dict[str, Any]:
    """The points along each axis, in order: those given, and for the others as many as a page shows.

    Of more than three axes the last ones are held in their middle.
    """
    unknown = sorted(set(coordinates) - set(domain))
    if unknown:
        raise ValueError(f"there is no axis {', '.join(unknown)}; the axes are {', '.join(domain)}")
    counts = POINTS[min(len(domain), 3)]
    points: dict[str, Any] = {}
    for i, (name, axis) in enumerate(domain.axes):
        if name in coordinates:
            points[name] = coordinates[name]
        elif i < len(counts):
            points[name] = np.linspace(axis.lower, axis.upper, counts[i])
        else:
            points[name] = (axis.lower + axis.upper) / 2
    return points


def _rank(problem: Problem) -> int:
    """How many axes the inputs have at most; more than two count as two."""
    return min(2, max((len(space.domain) for space in problem.inputs.values()), default=0))


def _named(names: tuple[str, ...], values: Any) -> dict[str, Array]:
    return values if isinstance(values, dict) else {names[0]: values}


def _fine(domain: Domain, name: str, points: Mapping[str, Any]) -> np.ndarray:
    """Where a page shows the input: on the grid of the solution, if that is an axis of it, else on as fine a one."""
    along = np.asarray(points[name], np.float64)
    axis = domain.axis(name)
    if along.ndim and along.size >= 33 and np.isclose(along[0], axis.lower) and np.isclose(along[-1], axis.upper):
        return along
    return np.linspace(axis.lower, axis.upper, 101 if len(domain) < 3 else 49)


def _about(operator: "Operator", points: Mapping[str, Any]) -> dict[str, Any]:
    from .. import __version__

    problem, model = operator.problem, operator.model
    counts = sensors_of(problem, model.sensors)
    inputs: dict[str, Any] = {}
    for name, space in problem.inputs.items():
        sensors = {
            axis_name: np.linspace(axis.lower, axis.upper, counts[name][axis_name], endpoint=not axis.periodic).tolist()
            for axis_name, axis in space.domain.axes
        }
        inputs[name] = {"axes": list(space.domain), "components": space.components, "sensors": sensors}
    constants = {f.name: getattr(problem, f.name) for f in dataclass_fields(problem)}  # pyright: ignore[reportArgumentType]
    return {
        "problem": type(problem).__name__,
        "title": re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(problem).__name__),
        "equations": describe_equations(problem),
        "constants": {name: value for name, value in constants.items() if isinstance(value, int | float | str)},
        "axes": {n: {"lower": a.lower, "upper": a.upper, "periodic": a.periodic} for n, a in problem.domain.axes},
        "coordinates": {name: np.asarray(p, np.float64).tolist() for name, p in points.items()},
        "fields": list(problem.fields),
        "inputs": inputs,
        "seponet": __version__,
        **facts_of(operator),
    }


def _draws(problem: Problem, drawn: Mapping[str, Drawn]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """Samples of all inputs `[draws, *shape]` by name, and which of them are presets, by what is special about them."""
    if not drawn:
        return {}, []
    rank = _rank(problem)
    count = DRAWS[rank]
    sampled = problem.sample(jax.random.key(0), LOOKED_AT[rank])
    values = {name: draw.from_functions(sampled[name]) for name, draw in drawn.items()}
    sizes, roughness = (np.zeros(len(next(iter(values.values())))) for _ in range(2))
    for name, draw in drawn.items():
        if not len(draw.space.domain):
            continue
        rows = values[name].reshape(len(sizes), -1)
        deviations = rows - rows.mean(0)
        size = np.linalg.norm(deviations, axis=1)
        steps = sum(
            np.sum(np.diff(values[name], axis=axis) ** 2, axis=tuple(range(1, values[name].ndim)))
            for axis in range(values[name].ndim - len(draw.space.domain), values[name].ndim)
        )
        sizes += size / max(size.mean(), 1e-30)
        roughness += np.sqrt(steps) / np.maximum(size, 1e-30)
    by_size, by_roughness = np.argsort(sizes), np.argsort(roughness)
    chosen = {
        "Typical": by_size[len(by_size) // 2],
        "Weak": by_size[len(by_size) // 20],
        "Strong": by_size[-1 - len(by_size) // 50],
        "Smooth": by_roughness[len(by_size) // 20],
        "Rough": by_roughness[-1 - len(by_size) // 50],
    }
    if rank == 0:
        chosen = {}
    special = list(dict.fromkeys(int(i) for i in chosen.values()))
    order = [*special, *(i for i in range(len(sizes)) if i not in special)][:count]
    presets = [{"label": label, "draw": order.index(int(i))} for label, i in chosen.items()]
    return {name: value[order].astype(np.float32) for name, value in values.items()}, presets
