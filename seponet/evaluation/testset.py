"""Test sets: functions that a model was not trained on, with reference solutions; computed once, kept in a cache."""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from .._text import percent
from ..equations.problem import Problem
from ..functions import Functions, as_callable
from ..locations import Grid
from ..operator.class_address import is_packaged
from ..problems.published import paper_reference
from ..reference import estimate_error
from .cache import UNKNOWN, cache_folder, class_fingerprint, read_cached, write_cached
from .own_reference import TOLERANCES, NoReference, check_usable, own_solutions

logger = logging.getLogger(__name__)

FORMAT = 3
OWN_POINTS = 65
"""Points along the axes of an input that is a function of a map's coordinates."""

SEEDS = {"test": 7_000_001, "validation": 7_000_002}
"""Each split has its key; training folds its seed differently, so no functions are shared."""

Kind = Literal["converged", "paper", "own"]
"""Where solutions come from: a problem's `reference`; a coarse solver like the paper's; or, where a problem has no
`reference`, the library's own discretisation."""


@dataclass(frozen=True, eq=False)
class TestSet:
    """Input functions and their reference solutions.

    **Arguments:**

    - `problem`: the problem, with its constants.
    - `inputs`: for each input a batch of functions.
    - `data`: the solutions, and the inputs for reading, with named coordinates; attributes say where they come from.
    """

    problem: Problem
    inputs: dict[str, Functions]
    data: xr.Dataset

    __test__: ClassVar[bool] = False

    @property
    def points(self) -> dict[str, np.ndarray]:
        """The points of the grid along each axis."""
        return {name: np.asarray(self.data[name]) for name in self.problem.domain}

    @property
    def own_error(self) -> float | None:
        """The mean relative error of the reference itself; None if it has no resolution to be estimated by."""
        return self.data.attrs.get("own_error_mean")

    @property
    def kind(self) -> Kind:
        """Where the solutions come from."""
        return self.data.attrs["solver"]

    def solution(self, field: str) -> Float[np.ndarray, "functions *grid"]:
        return np.asarray(self.data[field])

    def __len__(self) -> int:
        return self.data.sizes["function"]


def draw_functions(problem: Problem, split: str, functions: int) -> dict[str, Functions]:
    """The functions of a split, the same in every precision."""
    with jax.enable_x64(False):
        drawn = problem.sample(jax.random.key(SEEDS[split]), functions)
    return {name: drawn[name] for name in problem.inputs}


def load_testset(
    problem: Problem,
    split: Literal["test", "validation"] = "test",
    functions: int = 100,
    *,
    kind: Kind = "converged",
    points: Mapping[str, np.ndarray] | None = None,
    tolerance: float | None = None,
    refresh: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> TestSet:
    """The test set from the cache; it is computed first if it isn't there.

    **Arguments:**

    - `problem`, `split`, `functions`: whose functions, which and how many.
    - `kind`: "converged", or "paper" for the coarse solver that the paper quotes its errors against, or "own" for the
        library's own discretisation, which stands in for a `reference` that a problem does not have.
    - `points`: the grid; by default that of the problem.
    - `tolerance`: the relative error that own solutions may have; by default, and at most, `TOLERANCES` of the split.
    - `refresh`: whether to compute it anew.
    - `progress`: called with (functions solved, functions).
    """
    if functions < 1:
        raise ValueError(f"a test set has at least one function; got {functions}")
    inputs = draw_functions(problem, split, functions)
    points = dict(problem.grid() if points is None else points)
    kind = "own" if kind == "converged" and not problem.has_reference else kind
    tolerance = min(TOLERANCES[split], tolerance or TOLERANCES[split])
    attributes = _describe(problem, split, inputs, points, kind, tolerance)
    path = cache_folder() / f"{type(problem).__name__.lower()}-{split}-{attributes['content']}.nc"
    data = None
    if not refresh and path.exists():
        data = read_cached(path, attributes["content"])
    if data is None:
        data = _solve(problem, inputs, points, kind, tolerance, progress).assign_attrs(attributes)
        if kind == "converged" and problem.reference_resolution:
            data = data.assign_attrs(_own_error_attributes(problem, inputs, points, problem.reference_resolution))
        # What turns out to be no reference is kept too: it need not be found out twice.
        if attributes.get("source") != UNKNOWN:
            write_cached(data, path)
    if kind == "own":
        check_usable(problem, data.attrs)
        mean, largest = (percent(float(data.attrs[f"own_error_{which}"])) for which in ("mean", "max"))
        logger.info("reference: own discretisation, error %s on average, %s at most", mean, largest)
    return TestSet(problem, inputs, data)


def find_testset(
    problem: Problem,
    split: Literal["test", "validation"] = "test",
    functions: int = 100,
    *,
    kind: Kind = "converged",
    points: Mapping[str, np.ndarray] | None = None,
    tolerance: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TestSet | None:
    """`load_testset`, or None where there is nothing to compare with.

    That is: the problem has no inputs; or, which is told, the package that its reference needs is not installed, or it
    has no reference and the library's own discretisation is not accurate enough to be one.
    """
    if not problem.inputs:
        return None
    try:
        return load_testset(problem, split, functions, kind=kind, points=points, tolerance=tolerance, progress=progress)
    except (ImportError, NoReference) as error:
        logger.warning("errors are not measured: %s", error)
        return None


def _solve(
    problem: Problem,
    inputs: Mapping[str, Functions],
    points: Mapping[str, np.ndarray],
    kind: Kind,
    tolerance: float,
    progress: Callable[[int, int], None] | None,
) -> xr.Dataset:
    total = len(next(iter(inputs.values())))
    if kind == "own":
        logger.info("solving %d functions with the library's own discretisation", total)
        solutions, attributes = own_solutions(problem, inputs, points, tolerance)
        if progress is not None:
            progress(total, total)
        return _dataset(problem, inputs, points, [solutions]).assign_attrs(attributes)
    # A few functions at a time in two dimensions, where a batch of all would not fit in memory.
    batch = total if len(points) < 3 else 10
    parts: list[dict[str, np.ndarray]] = []
    for start in range(0, total, batch):
        subset = {name: functions[start : start + batch] for name, functions in inputs.items()}
        if kind == "converged":
            solved = problem.reference_solution(subset, points)
        else:
            solved = paper_reference(problem, subset, points)
        _check_reference(problem, solved, len(next(iter(subset.values()))), points)
        parts.append(solved)
        if progress is not None:
            progress(min(start + batch, total), total)
    return _dataset(problem, inputs, points, parts)


def _check_reference(
    problem: Problem, solved: Mapping[str, Any], functions: int, points: Mapping[str, np.ndarray]
) -> None:
    """Refuse what a method `reference` returns if it is not a solution: nothing else would notice."""
    name = f"`reference` of {type(problem).__name__}"
    if not isinstance(solved, Mapping) or set(solved) != set(problem.fields):
        came = ", ".join(map(str, solved)) if isinstance(solved, Mapping) else type(solved).__name__
        raise ValueError(f"{name} must return a mapping with the fields {', '.join(problem.fields)}; got {came}")
    shape = (functions, *(len(points[axis]) for axis in problem.domain))
    for field, values in solved.items():
        array = np.asarray(values)
        if array.shape != shape or not np.issubdtype(array.dtype, np.floating):
            raise ValueError(
                f"{name} must return {field!r} as real numbers of the shape {shape} (functions, then "
                f"{', '.join(problem.domain)}); got {array.dtype} of the shape {array.shape}"
            )
        with np.errstate(over="ignore"):
            wrong = ~np.isfinite(array.astype(np.float32))
        if np.any(wrong):
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            place = ", ".join(f"{n} = {points[n][i]:g}" for n, i in zip(problem.domain, index[1:], strict=True))
            raise ValueError(f"{name} returned {array[index]} for {field!r} of function {index[0]} at {place}")


def _dataset(
    problem: Problem,
    inputs: Mapping[str, Functions],
    points: Mapping[str, np.ndarray],
    parts: Sequence[Mapping[str, np.ndarray]],
) -> xr.Dataset:
    """The solutions of a few functions after the other, and the inputs."""
    dims = ("function", *problem.domain)
    fields = {
        field: (dims, np.concatenate([part[field].astype(np.float32) for part in parts])) for field in problem.fields
    }
    # An input of a map's coordinates has a box of its own.
    own = {
        f"{name}_{axis}": np.linspace(interval.lower, interval.upper, OWN_POINTS)
        for name, functions in inputs.items()
        for axis, interval in functions.space.domain.axes
        if axis not in points
    }
    return xr.Dataset({**fields, **_input_variables(inputs, points, own)}, coords={**points, **own})


def _input_variables(
    inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The inputs on the grid, `[functions, (components,) *axes]`; along axes that it lacks at points of their own."""
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for name, functions in inputs.items():
        axes = tuple(axis if axis in points else f"{name}_{axis}" for axis in functions.space.domain)
        values = as_callable(functions)(*({**points, **own}[axis] for axis in axes))
        if functions.space.components is None:
            variables[name] = (("function", *axes), values)
        else:
            variables[name] = (("function", f"{name}_component", *axes), np.swapaxes(values, 0, 1))
    return variables


def _own_error_attributes(
    problem: Problem, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray], resolution: int
) -> dict[str, float | int]:
    # A few functions, because twice the resolution costs several times as much.
    count = 8 if len(points) < 3 else 2
    subset = {name: functions[:count] for name, functions in inputs.items()}

    def solve(resolution: int) -> np.ndarray:
        solved = problem.reference_solution(subset, points, resolution)
        return np.concatenate([solved[field] for field in problem.fields], axis=-1)

    estimate = estimate_error(solve, resolution)
    return {
        "own_error_mean": estimate.mean,
        "own_error_max": estimate.maximum,
        "own_error_functions": count,
    }


def _describe(
    problem: Problem,
    split: str,
    inputs: Mapping[str, Functions],
    points: Mapping[str, np.ndarray],
    kind: Kind,
    tolerance: float,
) -> dict[str, Any]:
    constants = {name: value for name, value in vars(problem).items() if isinstance(value, int | float | str)}
    described = {
        "format": FORMAT,
        "problem": type(problem).__qualname__,
        "constants": json.dumps(constants, sort_keys=True),
        "split": split,
        "seed": SEEDS[split],
        "solver": kind,
        "resolution": problem.reference_resolution or "none",
    }
    if kind == "own":
        described["tolerance"] = tolerance
    if not is_packaged(type(problem)):
        # Its equation and its solver may change from run to run: solutions are those of the file as it is.
        described |= {"constants": repr(problem), "source": class_fingerprint(type(problem))}
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for leaf in jax.tree.leaves(dict(inputs)):
        digest.update(np.asarray(leaf).tobytes())
    for name in problem.domain:
        digest.update(np.asarray(points[name], np.float64).tobytes())
    return {**described, "content": digest.hexdigest()[:16]}


def grid_of(testset: TestSet) -> Grid:
    """The test set's grid as a location."""
    return Grid.of(testset.problem.domain, {name: jnp.asarray(points) for name, points in testset.points.items()})
