"""From a configuration to a branch that marches through time."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..bases.base import Basis
from ..calculus.lift import make_lift
from ..calculus.model import Sensors
from ..equations.evolution import Evolution, find_evolution
from ..equations.invariance import obstacle
from ..equations.problem import Problem
from ..locations import Grid
from .config import ModelConfig
from .marching_branch import MarchingBranch, project_windows
from .model import sense
from .trunks import AbstractTrunk

DEGREE = 5
"""Of the polynomials of time in a window."""

POINTS = 7
"""Along each axis, where lift and initial state are compared."""

FUNCTIONS_IN_WINDOW = 4
"""A window is as long as so many of the basis functions of time need."""


def make_marching_branch(
    problem: Problem,
    config: ModelConfig,
    exact: tuple[str, ...],
    trunks: tuple[AbstractTrunk, ...],
    key: PRNGKeyArray,
    sample_key: PRNGKeyArray,
) -> tuple[MarchingBranch, Sensors]:
    """A branch for the coefficients of an evolution equation on classical trunks, and its sensors: as many as there are
    basis functions along periodic axes, twice as many along others.

    **Arguments:**

    - `exact`, `trunks`: of the model.
    - `key`, `sample_key`: for the initial weights, and for the sample that sets the inputs' scales.
    """
    evolution = find_marched(problem, exact)
    domain = problem.domain
    bases = {name: trunk.classical_bases for name, trunk in zip(domain.names, trunks, strict=True)}
    first = {name: of_axis[0] for name, of_axis in bases.items() if of_axis is not None}
    if any(of_axis is None or set(of_axis) != {of_axis[0]} for of_axis in bases.values()):
        raise ValueError('branch = "marching" needs classical trunks that are the same for all fields')
    periodic = tuple(domain.axis(axis).periodic for axis in evolution.space)
    counts = {a: (1 if p else 2) * first[a].size for a, p in zip(evolution.space, periodic, strict=True)}
    sensors = tuple(
        (name, tuple((axis, counts[axis]) for axis in space.domain)) for name, space in sorted(problem.inputs.items())
    )
    samples = problem.sample(sample_key, 64)
    values = {name: np.asarray(sense(samples[name], dict(of_input)), np.float64) for name, of_input in sensors}
    windows = max(1, round(first[evolution.time].size / FUNCTIONS_IN_WINDOW))
    branch = MarchingBranch(
        evolution.initial,
        {name: tuple(evolution.space.index(a) for a in problem.inputs[name].domain) for name in evolution.parameters},
        {name: math.sqrt(np.mean(v**2)) or 1.0 for name, v in values.items()},
        tuple(counts.values()),
        periodic,
        tuple(i for i, axis in enumerate(evolution.space) if obstacle(problem, axis) is not None),
        domain.names.index(evolution.time),
        project_windows(first[evolution.time], windows, DEGREE),
        tuple(_to_coefficients(first[axis], counts[axis]) for axis in evolution.space),
        width=config.branch_width,
        blocks=config.branch_depth,
        reach=config.reach,
        key=key,
    )
    return branch, sensors


def find_marched(problem: Problem, exact: tuple[str, ...]) -> Evolution:
    """The structure of an equation that a branch can march through time, with exact conditions on some axes. The lift
    must be the initial state at all times, so that what is added to it vanishes where the conditions ask for it. A
    `ValueError` says what is missing."""
    evolution = find_evolution(problem)
    inputs = problem.sample(jax.random.key(0), 4)
    grid = Grid.of(problem.domain, {n: jnp.linspace(a.lower, a.upper, POINTS) for n, a in problem.domain.axes})
    space = Grid.of(problem.domain[evolution.space], {axis: grid[axis] for axis in evolution.space})
    for field, name in zip(problem.fields, evolution.initial, strict=True):
        lift = make_lift(problem, field, exact, inputs)
        values = jnp.zeros(()) if lift is None else lift(grid, ())
        state = grid.spread(inputs[name](space), evolution.space) if name else jnp.zeros(())
        if evolution.time not in exact or not np.allclose(values, state, atol=1e-4 * float(jnp.max(jnp.abs(state)))):
            raise ValueError(
                f'branch = "marching" continues states: it needs an exact axis {evolution.time}, and exact conditions '
                f"along {', '.join(evolution.space)} that the initial state of {field} satisfies at all times; got "
                f"exact = {', '.join(exact) or 'none'}"
            )
    return evolution


def _to_coefficients(basis: Basis, count: int) -> np.ndarray:
    """The least squares fit of a basis to values at uniform points, `[rank, points]`."""
    axis = basis.axis
    return np.linalg.pinv(basis.table(np.linspace(axis.lower, axis.upper, count, endpoint=not axis.periodic))[0])
