"""Where functions are evaluated: on a tensor grid, or at scattered points.

Arrays of values have the functions first: `[functions, n_1, ..., n_d]` on a grid and `[functions, points]` at
points. Whatever does not depend on an axis has size one there, so every term of an equation has the same rank and
broadcasts.
"""

from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .derivatives import MultiIndex
from .domain import Domain


class Grid(eqx.Module):
    """A tensor grid: one array of points per axis. A face is a grid with a single point along one axis.

    **Arguments:**

    - `names`: the axes in order.
    - `points`: for each axis its points, `[n]`.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    points: tuple[Float[Array, " _"], ...]

    @classmethod
    def of(cls, domain: Domain, points: Mapping[str, Float[Array, " _"]]) -> "Grid":
        """The grid of points by axis, in the order of a domain's axes."""
        return cls(domain.names, tuple(jnp.asarray(points[name]) for name in domain.names))

    def __getitem__(self, name: str) -> Float[Array, " _"]:
        return self.points[self.names.index(name)]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(p.shape[0] for p in self.points)

    def spread(self, values: Float[Array, "functions *rest"], axes: tuple[str, ...]) -> Float[Array, "functions *_"]:
        """Give `values` on the grid of `axes` (in any order) the rank of this grid."""
        order = [axes.index(name) for name in self.names if name in axes]
        values = jnp.transpose(values, (0, *(i + 1 for i in order)))
        missing = [i + 1 for i, name in enumerate(self.names) if name not in axes]
        return jnp.expand_dims(values, missing)

    def coordinate(self, name: str) -> Float[Array, "1 *_"]:
        """The coordinate `name`, shaped to broadcast against values on this grid."""
        return self.spread(self[name][None], (name,))

    def fix(self, name: str, value: float) -> "Grid":
        """The face on which the coordinate `name` equals `value`."""
        points = [
            jnp.full((1,), value, p.dtype) if n == name else p for n, p in zip(self.names, self.points, strict=True)
        ]
        return Grid(self.names, tuple(points))

    def rows(self, start: Array | int, size: int, axis: int = 0) -> "Grid":
        """The slab of `size` consecutive points along an axis."""
        slab = jax.lax.dynamic_slice_in_dim(self.points[axis], start, size)
        return Grid(self.names, (*self.points[:axis], slab, *self.points[axis + 1 :]))

    def pad(self, count: int, axis: int = 0) -> "Grid":
        """The grid with its last point along an axis repeated `count` times, so that slabs of one size cover it."""
        padded = jnp.pad(self.points[axis], (0, count), mode="edge")
        return Grid(self.names, (*self.points[:axis], padded, *self.points[axis + 1 :]))

    def mesh(self) -> "Points":
        """The same locations as scattered points, the last axis running fastest."""
        mesh = jnp.meshgrid(*self.points, indexing="ij")
        return Points(self.names, tuple(m.reshape(-1) for m in mesh))


class Points(eqx.Module):
    """Scattered points.

    **Arguments:**

    - `names`: the axes in order.
    - `points`: for each axis the coordinate of every point, `[points]`.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    points: tuple[Float[Array, " points"], ...]

    @classmethod
    def of(cls, domain: Domain, points: Mapping[str, Float[Array, " points"]]) -> "Points":
        """The points by axis, in the order of a domain's axes."""
        return cls(domain.names, tuple(jnp.asarray(points[name]) for name in domain.names))

    def __getitem__(self, name: str) -> Float[Array, " points"]:
        return self.points[self.names.index(name)]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.points[0].shape

    def spread(
        self, values: Float[Array, "functions points"], axes: tuple[str, ...]
    ) -> Float[Array, "functions points"]:
        """`values` as they are: at scattered points every function has one axis, however many it depends on."""
        return values

    def coordinate(self, name: str) -> Float[Array, "1 points"]:
        return self[name][None]

    def fix(self, name: str, value: float) -> "Points":
        points = [jnp.full_like(p, value) if n == name else p for n, p in zip(self.names, self.points, strict=True)]
        return Points(self.names, tuple(points))

    def pad(self, count: int, axis: int = 0) -> "Points":
        return Points(self.names, tuple(jnp.pad(p, (0, count), mode="edge") for p in self.points))

    def rows(self, start: Array | int, size: int, axis: int = 0) -> "Points":
        return Points(self.names, tuple(jax.lax.dynamic_slice_in_dim(p, start, size) for p in self.points))


Location = Grid | Points

Evaluable = Callable[[Location, MultiIndex], Array]
"""A batch of functions: (location, multi-index of the derivative) -> `[functions, ...]`."""
