"""Collocation: the locations at which residuals are asked to vanish, with quadrature weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bases.quadrature import quadrature
from ..equations.terms import Face
from ..locations import Grid, Location
from .model import Model

Quadrature = tuple[Float[Array, " _"] | None, ...]
"""Quadrature weights along each axis, which sum to one; None is uniform."""


class Collocation(eqx.Module):
    """The locations at which residuals are asked to vanish, in the interior and on faces.

    **Arguments:**

    - `where`: the interior locations.
    - `weights`: quadrature weights that sum to one, for each axis of a grid (or one array for points); None is uniform.
    - `boundary`: locations for the faces, with their weights; None takes those of the interior.
    """

    where: Location
    weights: Quadrature
    boundary: Location | None = None

    @classmethod
    def uniform(cls, where: Location, boundary: Location | None = None) -> "Collocation":
        """Locations that all count alike."""
        return cls(where, (None,) * len(where.shape), boundary)

    def location(self, *, faces: bool) -> Location:
        """The locations of the interior, or those that are projected on faces."""
        return self.boundary if faces and self.boundary is not None else self.where

    def quadrature(self, face: Face | None) -> Quadrature:
        """The weights along each axis, in the interior or on a face."""
        if face is None:
            return self.weights
        if self.boundary is not None or len(self.weights) == 1:
            return (None,) * len(self.weights)
        return tuple(None if n == face.axis else w for n, w in zip(self.where.names, self.weights, strict=True))


Nodes = tuple[tuple[str, int], ...]
"""The number of quadrature nodes along each axis."""


def quadrature_nodes(model: Model, oversampling: float = 2.0) -> Nodes:
    """The number of quadrature nodes along each axis that resolves the basis functions.

    With twice as many nodes as functions, squared residuals of a quadratic equation are integrated exactly.
    """
    names = model.problem.domain.names
    # So that the grid stays small: 64,000 nodes in three dimensions.
    limit = {1: 512, 2: 96, 3: 40}.get(len(names), 12)
    centre = Grid(names, tuple(jnp.full((1,), axis.lower + axis.length / 2) for _, axis in model.problem.domain.axes))
    ranks = jax.eval_shape(lambda: model.basis_values(centre, centre, {None: frozenset({()})})[None]).ranks()
    if ranks is None:
        return tuple((name, limit // 2) for name in names)
    return tuple((n, min(max(int(np.ceil(oversampling * r)), 8), limit)) for n, r in zip(names, ranks, strict=True))


def make_collocation(model: Model, nodes: Nodes) -> Collocation:
    """Gauss-Legendre nodes on intervals and uniform ones on periodic axes, with weights that sum to one.

    They are constants of a traced program, so that classical bases are tabulated rather than computed in it.
    """
    domain, counts = model.problem.domain, dict(nodes)
    rules = {name: quadrature(axis, counts[name]) for name, axis in domain.axes}
    with jax.ensure_compile_time_eval():
        weights = tuple(jnp.asarray(w / np.sum(w)) for _, w in rules.values())
        return Collocation(Grid.of(domain, {name: jnp.asarray(p) for name, (p, _) in rules.items()}), weights)
