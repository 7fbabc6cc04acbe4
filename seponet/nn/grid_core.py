"""Models whose core is a field: potentials, and branches that return fields over nodal trunks."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from ..nodal import Nodal
from ..problem import Problem
from .field import FieldBranch
from .model import Sensors, sense
from .potentials import Potentials, curl
from .trunks import BasisTrunk, Trunk


def make_potentials(problem: Problem, output: str) -> Potentials | None:
    """What the coefficients are of: None for the fields themselves, a stream function for "curl"."""
    if output == "fields":
        return None
    circles = [name for name, axis in problem.domain.axes if axis.periodic]
    if len(circles) != 2 or len(problem.fields) != 2:
        raise ValueError(
            f'output = "curl" needs two fields along two periodic axes; got the fields {", ".join(problem.fields)} '
            f"and the periodic axes {', '.join(circles) or 'none'}"
        )
    return curl(*circles)


def field_branch(
    problem: Problem,
    trunks: Sequence[Trunk],
    size: int,
    channels: tuple[str, ...],
    *,
    sample_key: PRNGKeyArray,
    **options: Any,
) -> tuple[FieldBranch, Sensors]:
    """A branch whose outputs are a field on the nodes of the periodic axes, and where it sees its inputs: there too.

    **Arguments:**

    - `problem`, `trunks`: what the model is for, and its trunks; those of periodic axes are nodal and come last.
    - `size`: the number of coefficients.
    - `channels`: inputs and derivatives of them that the branch sees; empty for all that is given.
    - `sample_key`: for the sample that sets the inputs' scales.
    - `options`: of `FieldBranch`.
    """
    counts: dict[str, int] = {}
    for (name, axis), trunk in zip(problem.domain.axes, trunks, strict=True):
        nodal = isinstance(trunk, BasisTrunk) and isinstance(trunk.bases[0], Nodal)
        if axis.periodic != nodal or (counts and not nodal):
            raise ValueError(
                'branch = "spectral" makes a field over periodic axes: it needs decoder = "tucker" and trunk = "nodal" '
                f"along them, and they come last in the domain; {name} does not fit"
            )
        counts |= {name: trunk.bases[0].size} if isinstance(trunk, BasisTrunk) and nodal else {}
    names = channels or tuple(problem.spaces)
    symbols = {name: problem.vocabulary.parse(name) for name in sorted(names)}
    for name, symbol in symbols.items():
        if symbol.kind != "input" or problem.spaces[symbol.name].domain.names != tuple(counts):
            raise ValueError(f"channels are given functions of {', '.join(counts) or 'periodic axes'}; got {name!r}")
    samples = problem.sample(sample_key, 64)
    values = {name: np.asarray(sense(samples[s.name], counts, s.alpha)) for name, s in symbols.items()}
    grid = tuple(counts.values())
    branch = FieldBranch(values, grid, size // math.prod(grid), **options)
    return branch, tuple((name, tuple(counts.items())) for name in symbols)
