"""Positive functions."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..derivatives import MultiIndex, multi_index
from ..domain import Domain
from ..locations import Location
from .space import Space


@dataclass(frozen=True)
class Positive(Space):
    r"""$u = v - \min v + \text{floor}$ with v from another space.

    In one dimension the minimum over a grid is refined, by Newton's method, to that of the Taylor polynomial of degree
    four at the lowest grid point, with an error of about h^5 v^(5) / 4000: for a squared-exponential field of length
    scale 0.2 on [0, 1], 1e-11. In several dimensions it is the minimum over the grid, too high by up to h^2/8 times
    the sum of the second derivatives.

    **Arguments:**

    - `base`: the space of v; scalar valued.
    - `floor`: the minimum of u.
    - `resolution`: the number of grid points along each axis; by default 257, 129 and 33 in one, two and more
        dimensions.
    """

    base: Space
    floor: float = 1.0
    resolution: int | None = None
    domain: Domain = field(init=False)

    def __post_init__(self) -> None:
        if self.base.components is not None or not len(self.base.domain):
            raise ValueError(f"Positive needs a space of scalar functions of at least one axis; got {self.base}")
        object.__setattr__(self, "domain", self.base.domain)

    def draw(self, key: PRNGKeyArray, n: int) -> dict[str, Any]:
        base = self.base.draw(key, n)
        minimum = _line_minimum if len(self.domain) == 1 else _grid_minimum
        resolution = self.resolution or (257, 129, 33)[min(len(self.domain), 3) - 1]
        return {"base": base, "shift": self.floor - minimum(self.base, base, resolution)}

    def evaluate(self, parameters: dict[str, Any], where: Location, alpha: MultiIndex) -> Float[Array, "n *places"]:
        values = self.base.evaluate(parameters["base"], where, alpha)
        if alpha:
            return values
        return values + parameters["shift"].reshape(-1, *(1,) * (values.ndim - 1))


def _grid_minimum(space: Space, parameters: Any, resolution: int) -> Float[Array, " n"]:
    values = space.evaluate(parameters, space.sensors(resolution), ())
    return values.min(axis=tuple(range(1, values.ndim)))


def _line_minimum(space: Space, parameters: Any, resolution: int) -> Float[Array, " n"]:
    ((name, axis),) = space.domain.axes
    grid = space.sensors(resolution)
    x = grid[name]
    step = axis.length / (resolution - 1)
    jet = [space.evaluate(parameters, grid, multi_index(**{name: m})) for m in range(5)]
    lowest = jnp.argmin(jet[0], axis=1)
    v, v1, v2, v3, v4 = (jnp.take_along_axis(d, lowest[:, None], axis=1)[:, 0] for d in jet)
    # The search stays within one grid step, and on the axis if the lowest point is an end of it.
    left, right = (-step, step) if axis.periodic else (axis.lower - x[lowest], axis.upper - x[lowest])
    shift = jnp.zeros_like(v)
    for _ in range(4):
        slope = v1 + shift * (v2 + shift * (v3 / 2 + shift * v4 / 6))
        curvature = v2 + shift * (v3 + shift * v4 / 2)
        newton = shift - slope / jnp.where(curvature > 0, curvature, jnp.inf)
        shift = jnp.clip(newton, jnp.maximum(left, -step), jnp.minimum(right, step))
    refined = v + shift * (v1 + shift * (v2 / 2 + shift * (v3 / 6 + shift * v4 / 24)))
    # Where the polynomial has no minimum nearby, the lowest grid value is the better one.
    return jnp.minimum(v, refined)
