"""Sums of Gaussian bumps."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..derivatives import MultiIndex, order_along
from ..domain import Domain
from ..locations import Grid, Location
from .space import Space


@dataclass(frozen=True)
class Bumps(Space):
    r"""Sums of isotropic Gaussians on any number of axes,

    $$u(x) = \sum_j A_j \exp(-w_j |x - c_j|^2),$$

    with A, w and every coordinate of c independent and uniform in their ranges. A Gaussian is a product over the axes,
    so a grid costs one exponential per axis point, not per grid point.

    **Arguments:**

    - `domain`: its axes.
    - `count`: how many bumps.
    - `amplitude`, `sharpness`, `centre`: the ranges of A, w and the coordinates of c.
    """

    domain: Domain
    count: int = 3
    amplitude: tuple[float, float] = (0.2, 0.5)
    sharpness: tuple[float, float] = (10.0, 20.0)
    centre: tuple[float, float] = (-0.5, 0.5)

    def __post_init__(self) -> None:
        if not len(self.domain) or self.count < 1:
            raise ValueError(
                f"Bumps need at least one axis and one bump; got {len(self.domain)} axes, {self.count} bumps"
            )
        for name in ("amplitude", "sharpness", "centre"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name} must be a range (low, high); got ({low}, {high})")

    def draw(self, key: PRNGKeyArray, n: int) -> dict[str, Float[Array, "n count ..."]]:
        ranges = {"amplitude": self.amplitude, "sharpness": self.sharpness, "centre": self.centre}
        counts = {"amplitude": self.count, "sharpness": self.count, "centre": self.count * len(self.domain)}
        parameters = {
            name: jax.random.uniform(key, (n, counts[name]), minval=low, maxval=high)
            for (name, (low, high)), key in zip(ranges.items(), jax.random.split(key, 3), strict=True)
        }
        return parameters | {"centre": parameters["centre"].reshape(n, self.count, len(self.domain))}

    def evaluate(self, parameters: dict[str, Array], where: Location, alpha: MultiIndex) -> Float[Array, "n *places"]:
        sharpness, centres = parameters["sharpness"], jnp.moveaxis(parameters["centre"], 2, 0)
        factors = [
            _gaussian(x, sharpness[..., None], c[..., None], order_along(alpha, name))
            for name, x, c in zip(where.names, where.points, centres, strict=True)
        ]
        factors[0] = parameters["amplitude"][..., None] * factors[0]
        if not isinstance(where, Grid):
            return functools.reduce(jnp.multiply, factors).sum(axis=1)
        # One matrix product sums over the bumps: all axes but the last are its rows.
        *leading, last = factors
        if not leading:
            return last.sum(axis=1)
        n, count = sharpness.shape
        products = functools.reduce(lambda a, b: (a[..., None] * b[:, :, None]).reshape(n, count, -1), leading)
        values = jnp.einsum("ncx,ncy->nxy", products, last, precision="highest")
        return values.reshape(n, *where.shape)


def _gaussian(x: Float[Array, " m"], w: Array, c: Array, m: int) -> Float[Array, "n count m"]:
    # g = exp(-w (x - c)^2) has g' = -2 w (x - c) g; Leibniz gives g^(m+1) = -2 w ((x - c) g^(m) + m g^(m-1)).
    distance = x[None, None] - c
    lower, value = jnp.zeros_like(distance), jnp.exp(-w * distance**2)
    for k in range(m):
        lower, value = value, -2 * w * (distance * value + k * lower)
    return value
