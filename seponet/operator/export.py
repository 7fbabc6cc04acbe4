"""An operator on one grid as a frozen program, and its files."""

import re
from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Array

from ..domain import Domain
from ..equations.describe import describe_equations
from ..export.program import Program
from ..export.trace import trace
from ..mapped import Mapped
from .facts import facts_of
from .request import sensors_of

if TYPE_CHECKING:
    from .operator import Operator

POINTS = {1: (201,), 2: (101, 101), 3: (21, 49, 49)}
"""The points of a page along each axis that it shows, for as many axes."""

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
        from .page import freeze_page

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
        return named_fields(problem.fields, operator.evaluate(values, **points))

    return trace(fields, shapes).described(about(operator, points))


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
    counts = _counts(domain)
    points: dict[str, Any] = {}
    for name, axis in domain.axes:
        if name in coordinates:
            points[name] = coordinates[name]
        elif name in counts:
            points[name] = np.linspace(axis.lower, axis.upper, counts[name])
        else:
            points[name] = (axis.lower + axis.upper) / 2
    return points


def _counts(domain: Domain) -> dict[str, int]:
    """The points along the axes that a page shows. Round a closed curve there are twice as many, and across it half,
    so that it looks like one."""
    counts = dict(zip(domain, POINTS[min(len(domain), 3)], strict=False))
    replaced = [name for name in domain.replaced if name in counts] if isinstance(domain, Mapped) else []
    closed = [name for name in replaced if domain.axis(name).periodic]
    if len(replaced) == 2 and len(closed) == 1:
        counts |= {name: 2 * counts[name] - 1 if name in closed else (counts[name] + 1) // 2 for name in replaced}
    return counts


def named_fields(names: tuple[str, ...], values: Any) -> dict[str, Array]:
    return values if isinstance(values, dict) else {names[0]: values}


def axes_about(domain: Domain) -> dict[str, Any]:
    """The axes of a domain by name, as JSON."""
    return {n: {"lower": a.lower, "upper": a.upper, "periodic": a.periodic} for n, a in domain.axes}


def about(operator: "Operator", points: Mapping[str, Any]) -> dict[str, Any]:
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
        "axes": axes_about(problem.domain),
        "coordinates": {name: np.asarray(p, np.float64).tolist() for name, p in points.items()},
        "fields": list(problem.fields),
        "inputs": inputs,
        "seponet": __version__,
        **facts_of(operator),
    }
