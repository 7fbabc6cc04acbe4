"""Where the equation is asked to hold in one step: collocation points, drawn axis by axis."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..bases.quadrature import quadrature
from ..calculus.collocation import Collocation
from ..calculus.evaluate import residuals
from ..calculus.model import Model
from ..domain import Domain, Interval
from ..locations import Evaluable, Grid, Points

METHODS = ("uniform", "stratified", "gauss", "adaptive")

Density = tuple[Float[Array, " _"] | None, ...]
"""For each adaptive axis, how the points of the next draw are spread over equal cells."""


@dataclass(frozen=True)
class Sampler:
    """Draws collocation points.

    - "uniform": independent random points (the paper).
    - "stratified": one random point in each of equal cells.
    - "gauss": quadrature nodes with their weights, the same every time: Gauss-Legendre, or uniform on periodic axes.
    - "adaptive": stratified, but in cells that are small where the residual along this axis has been large.

    **Arguments:**

    - `domain`: the axes.
    - `counts`: the number of points along each axis.
    - `methods`: one of the above for each axis.
    - `scattered`: draw as many points as the grid would have, anywhere in the domain, instead of a grid; and as many on
        each face as the longest axis has (for networks that aren't separable).
    """

    domain: Domain
    counts: tuple[int, ...]
    methods: tuple[str, ...]
    scattered: bool = False

    def __post_init__(self) -> None:
        for name, method, count in zip(self.domain, self.methods, self.counts, strict=True):
            if method not in METHODS:
                raise ValueError(f"sampling along {name} must be one of {', '.join(METHODS)}; got {method!r}")
            if count < 1:
                raise ValueError(f"axis {name} needs at least one point; got {count}")
        if self.scattered and set(self.methods) != {"uniform"}:
            raise ValueError(f"scattered points are drawn uniformly; got {', '.join(sorted(set(self.methods)))}")

    @classmethod
    def of(
        cls,
        domain: Domain,
        points: int | str | Mapping[str, int],
        method: str | Mapping[str, str] = "stratified",
        scattered: bool = False,
    ) -> "Sampler":
        """Counts and methods as one value for all axes, or by axis."""
        if isinstance(points, str):
            raise ValueError(f"points are needed as numbers (`resolve_auto` chooses them for recipes); got {points!r}")
        counts = tuple(_of_axis("points", points, name, domain.names) for name in domain)
        methods = tuple(_of_axis("sampling", method, name, domain.names) for name in domain)
        return cls(domain, counts, methods, scattered)

    def density(self) -> Density:
        """The density of the first draw: even."""
        return tuple(jnp.ones(n) if m == "adaptive" else None for n, m in zip(self.counts, self.methods, strict=True))

    def draw(self, key: PRNGKeyArray, density: Density) -> Collocation:
        """Points for one step; ascending along each axis of a grid."""
        if self.scattered:
            return self._scatter(key)
        keys = jax.random.split(key, len(self.counts))
        axes = [axis for _, axis in self.domain.axes]
        drawn = [
            _along(axis, n, method, keys[i], d)
            for i, (axis, n, method, d) in enumerate(zip(axes, self.counts, self.methods, density, strict=True))
        ]
        return Collocation(Grid(self.domain.names, tuple(p for p, _ in drawn)), tuple(w for _, w in drawn))

    def adapt(
        self, density: Density, model: Model, inputs: Mapping[str, Evaluable], collocation: Collocation
    ) -> Density:
        """Move the density of every adaptive axis towards where the equations' residuals are large along it."""
        if all(d is None for d in density):
            return density
        names = [term.name for term in model.problem.equations]
        values = residuals(model, inputs, collocation.where)
        squares = sum(values[name] ** 2 / (jnp.mean(values[name] ** 2) + 1e-30) for name in names)
        densities: list[Array | None] = []
        for i, (old, (name, axis)) in enumerate(zip(density, self.domain.axes, strict=True)):
            if old is None:
                densities.append(None)
                continue
            profile = jnp.mean(squares, axis=[k for k in range(1 + len(density)) if k != i + 1])  # pyright: ignore
            centres = axis.lower + axis.length * (jnp.arange(old.shape[0]) + 0.5) / old.shape[0]
            target = jnp.interp(centres, collocation.where[name], profile)
            # Half of the points stay evenly spread: an axis is never abandoned.
            target = 0.5 + 0.5 * target / jnp.mean(target)
            densities.append(0.8 * old + 0.2 * target)
        return tuple(densities)

    def _scatter(self, key: PRNGKeyArray) -> Collocation:
        total = math.prod(self.counts)
        keys = jax.random.split(key, 2 * len(self.counts))

        def points(keys: Array, n: int) -> Points:
            unit = [jax.random.uniform(k, (n,)) for k in keys]
            scaled = [axis.lower + axis.length * u for (_, axis), u in zip(self.domain.axes, unit, strict=True)]
            return Points(self.domain.names, tuple(scaled))

        inside = points(keys[: len(self.counts)], total)
        faces = points(keys[len(self.counts) :], max(self.counts))
        return Collocation(inside, (None,), faces)


def _along(axis: Interval, n: int, method: str, key: Array, density: Array | None) -> tuple[Array, Array | None]:
    if method == "gauss":
        points, weights = quadrature(axis, n)
        return jnp.asarray(points), jnp.asarray(weights / axis.length)
    if method == "uniform":
        unit = jnp.sort(jax.random.uniform(key, (n,)))
    else:
        unit = (jnp.arange(n) + jax.random.uniform(key, (n,))) / n
    if density is not None:
        edges = jnp.linspace(0, 1, density.shape[0] + 1)
        mass = jnp.concatenate([jnp.zeros(1), jnp.cumsum(density)]) / jnp.sum(density)
        unit = jnp.interp(unit, mass, edges)
    return axis.lower + axis.length * unit, None


def _of_axis(what: str, value: Any, name: str, names: tuple[str, ...]) -> Any:
    if not isinstance(value, Mapping):
        return value
    if unknown := sorted(set(value) - set(names)):
        raise ValueError(f"{what} names {', '.join(unknown)}; the axes are {', '.join(names)}")
    if name not in value:
        raise ValueError(f"{what} must be one value or name every axis; {name} is missing from {dict(value)}")
    return value[name]
