"""What an explorer page computes and carries: fields, the input as it is drawn, its range, the error, samples."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..derivatives import multi_index
from ..domain import Domain
from ..equations.flow import flow_axes
from ..equations.problem import Problem
from ..export.program import Program
from ..export.trace import trace
from ..functions import Functions, SolenoidalField, Space, project
from ..functions.interpolant import interpolate
from ..locations import Grid
from .estimate import estimate
from .export import about, axes_about, complete_points, named_fields, sensor_shapes
from .input_range import SAMPLE, InputRange, input_ranges, score
from .page_places import Places

if TYPE_CHECKING:
    from .operator import Operator

DRAWS = {0: 64, 1: 48, 2: 16}
"""Samples of the inputs that a page carries, for as many axes as the inputs have at most."""

LOOKED_AT = {0: 256, 1: 256, 2: 32}
"""Samples among which the presets are chosen, for as many axes likewise."""


def freeze_page(operator: "Operator", coordinates: Mapping[str, Any]) -> Program:
    """The frozen program of a page: as `freeze`, and beside the fields what the page shows of the input and the error.

    A velocity without divergence is drawn as its vorticity, and a flow is shown as one. A mapped domain is shown where
    its points are.
    """
    problem = operator.problem
    points = complete_points(problem.domain, coordinates)
    shapes = sensor_shapes(operator)
    drawn = {name: Drawn(name, space, shapes[name]) for name, space in problem.inputs.items()}
    flow, trust, places = flow_axes(problem), Trust(operator), Places(problem, points)

    def outputs(values: dict[str, Array]) -> dict[str, Array]:
        sensed = {name: drawn[name].to_sensors(value) for name, value in values.items()}
        results = named_fields(problem.fields, operator.evaluate(sensed, **points))
        if flow is not None:
            x, y = flow
            p, q = problem.fields
            slopes = operator.evaluate(sensed, derivative=[f"{q}_{x}", f"{p}_{y}"], **points)
            results = {"vorticity": slopes[f"{q}_{x}"] - slopes[f"{p}_{y}"], **results}
        results |= places.outputs(sensed)
        results |= trust.judge({name: value[None] for name, value in sensed.items()})
        for name, draw in drawn.items():
            if len(draw.space.domain):
                results[f"input:{name}"] = draw.interpolated(values[name], draw.fine(points))
            if not draw.by_vorticity:
                results |= trust.nearest(name, values[name])
        return results

    program = trace(outputs, {name: draw.shape for name, draw in drawn.items()})
    described = about(operator, points)
    quantities = [*([] if flow is None else ["vorticity"]), *problem.fields]
    described["quantities"] = quantities
    for name, draw in drawn.items():
        described["inputs"][name] |= draw.about(points)
    sampled = problem.sample(jax.random.key(0), LOOKED_AT[_rank(problem)])
    draws, presets = _draws(problem, drawn, sampled)
    described |= {"presets": presets, **places.about(sampled)}
    return program.described(described).with_arrays({f"draws:{name}": values for name, values in draws.items()})


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

    def fine(self, points: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Where a page shows it: on the grid of the solution, along axes that have one, else on as fine a one."""
        return {name: _fine(self.space.domain, name, points.get(name)) for name in self.space.domain}

    def about(self, points: Mapping[str, Any]) -> dict[str, Any]:
        """What a page needs to know to draw it."""
        bounds = {key: getattr(self.space, key) for key in ("low", "high", "log") if hasattr(self.space, key)}
        label = f"vorticity of {self.name}" if self.by_vorticity else self.name
        return {
            "label": label,
            "bounds": axes_about(self.space.domain),
            "shown": {axis: values.tolist() for axis, values in self.fine(points).items()},
            **{key: list(v) if isinstance(v, tuple) else v for key, v in bounds.items()},
        }

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
            seen, others = (self.model.encode(operator.problem.sample(jax.random.key(i), SAMPLE)) for i in (1, 2))
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


def _rank(problem: Problem) -> int:
    """How many axes the inputs have at most; more than two count as two."""
    return min(2, max((len(space.domain) for space in problem.inputs.values()), default=0))


def _fine(domain: Domain, name: str, points: Any) -> np.ndarray:
    along = np.asarray(points if points is not None else 0.0, np.float64)
    axis = domain.axis(name)
    if along.ndim and along.size >= 33 and np.isclose(along[0], axis.lower) and np.isclose(along[-1], axis.upper):
        return along
    return np.linspace(axis.lower, axis.upper, 101 if len(domain) < 3 else 49)


def _draws(
    problem: Problem, drawn: Mapping[str, Drawn], sampled: Mapping[str, Functions]
) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """Samples of all inputs `[draws, *shape]` by name, and which of them are presets, by what is special about them."""
    if not drawn:
        return {}, []
    rank = _rank(problem)
    count = DRAWS[rank]
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
