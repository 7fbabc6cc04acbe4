"""Spaces of input functions, and batches of functions drawn from them."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray, PyTree

from .._precision import double_precision
from ..bases.base import Basis
from ..derivatives import MultiIndex, order_along
from ..domain import Domain
from ..locations import Grid, Location, Points


class Space(ABC):
    """A distribution over smooth functions. Frozen and hashable: it holds hyper-parameters, never samples.

    - `domain`: the axes that the functions depend on; empty for scalars and vectors.
    - `components`: how many components the functions have; None for scalar values, which have no component axis.

    The order of components: what users give and what files hold (arrays, `Sampled`, parameters, test sets) has the
    functions first, then the components, then the axes. What is evaluated (`evaluate`, `Functions`, `as_callable`, and
    the values that `fit` takes) has the components first of all, so that `u[0]` in an equation is the first component.
    """

    domain: Domain
    components: int | None = None

    @abstractmethod
    def draw(self, key: PRNGKeyArray, n: int) -> PyTree[Array]:
        """The parameters of `n` random functions: arrays with a leading axis of size `n`."""

    @abstractmethod
    def evaluate(self, parameters: PyTree[Array], where: Location, alpha: MultiIndex) -> Float[Array, "..."]:
        """The derivative `alpha` of the functions at a location that has the space's axes, in their order.

        **Returns:** `[n, *where.shape]`; components, if any, lead.
        """

    def sample(self, key: PRNGKeyArray, n: int) -> "Functions":
        """Draw `n` functions; deterministic in the key, and may be called in a `jit`."""
        return Functions(self, self.draw(key, n))

    def fit(self, values: Float[Array, "..."]) -> "Functions":
        """The functions of this space that are nearest to values `[n, *grid]` on a uniform grid (see `sensors`);
        components lead. So the state at the end of one window of time becomes the input of the next."""
        raise ValueError(
            f"a {type(self).__name__} is not a linear expansion, so values on a grid can't be mapped into it; use a "
            "space like SpectralField or SolenoidalField, or give it a method `fit`"
        )

    def sensors(self, counts: int | Mapping[str, int]) -> Grid:
        """A uniform grid: with both ends on an interval, without the duplicate end on a periodic axis."""
        points = {}
        for name, axis in self.domain.axes:
            count = counts if isinstance(counts, int) else counts.get(name)
            if count is None or count < 2:
                raise ValueError(f"axis {name!r} needs a number of sensors of at least 2; got {count}")
            points[name] = np.linspace(axis.lower, axis.upper, count, endpoint=not axis.periodic)
        # The points are constants of a traced program, so that bases are tabulated rather than computed in it.
        with jax.ensure_compile_time_eval():
            return Grid.of(self.domain, {name: jax.device_put(p) for name, p in points.items()})


class Functions(eqx.Module):
    """A batch of functions of one space; indexing and slicing select among them.

    **Arguments:**

    - `space`: the space they belong to.
    - `parameters`: the arrays that make the functions, each with the functions as its leading axis.
    """

    space: Space = eqx.field(static=True)
    parameters: PyTree[Array]

    def __len__(self) -> int:
        return jax.tree.leaves(self.parameters)[0].shape[0]

    def __iter__(self) -> Iterator["Functions"]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, rows: Any) -> "Functions":
        if isinstance(rows, int):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"there are {len(self)} functions; got the index {rows}")
            rows = slice(rows, rows + 1 or None)
        if not isinstance(rows, slice | Array):
            # Known numbers: NumPy says what is wrong with them, and `take` is dispatched in a thirtieth of the time.
            rows = np.arange(len(self))[rows]
            return Functions(self.space, jax.tree.map(lambda leaf: take_rows(leaf, rows), self.parameters))
        return Functions(self.space, jax.tree.map(lambda leaf: leaf[rows], self.parameters))

    def __call__(self, where: Location, alpha: MultiIndex = ()) -> Float[Array, "..."]:
        """The derivative `alpha`, `[functions, ...]` with the rank of `where`; components, if any, lead.

        Axes that the functions do not depend on have size one, and derivatives along them are zero.
        """
        axes = self.space.domain.names
        missing = [name for name in axes if name not in where.names]
        if missing:
            raise ValueError(
                f"functions of {', '.join(axes)} need points along {', '.join(missing)}; "
                f"got {', '.join(where.names) or 'none'}"
            )
        foreign = any(name not in axes for name, _ in alpha)
        location = type(where)(axes, tuple(where[name] for name in axes))
        values = self.space.evaluate(self.parameters, location, () if foreign else alpha)
        if foreign:
            values = jnp.zeros_like(values)
        if isinstance(where, Points):
            return values if axes else values[..., None]
        if self.space.components is None:
            return where.spread(values, axes)
        return jax.vmap(lambda component: where.spread(component, axes))(values)

    def each(self, points: tuple[Float[Array, "functions points"], ...], alpha: MultiIndex = ()) -> Float[Array, "..."]:
        """The derivative `alpha` at points that every function has of its own: for each axis of the space the
        coordinates `[functions, points]`. Returns `[functions, points]`; components, if any, lead."""
        names = self.space.domain.names

        def one(parameters: PyTree[Array], own: tuple[Array, ...]) -> Array:
            alone = jax.tree.map(lambda leaf: leaf[None], parameters)
            return self.space.evaluate(alone, Points(names, own), alpha)[..., 0, :]

        values = jax.vmap(one)(self.parameters, points)
        return values if self.space.components is None else jnp.moveaxis(values, 0, 1)


class Expansion(Space):
    """Independent normal coefficients times 1-D bases: u = sum c[k_1, .., k_d] f_k1(x_1) .. f_kd(x_d) (Tucker form).

    A derivative acts on the 1-D factors alone. The parameters are the coefficients `[n, K_1, .., K_d]`; if the bases
    are orthonormal, the sum of their squares is the squared L2 norm of the function. Coefficients whose deviation is
    zero are not drawn: evaluation contracts the whole core axis by axis, which is quicker than a list of products.
    """

    @property
    @abstractmethod
    def bases(self) -> tuple[Basis, ...]:
        """One basis for each axis."""

    @property
    @abstractmethod
    def deviations(self) -> Float64[np.ndarray, "*sizes"]:
        """The standard deviations of the coefficients."""

    def draw(self, key: PRNGKeyArray, n: int) -> PyTree[Array]:
        return normal(key, n, self.deviations)

    def evaluate(self, parameters: PyTree[Array], where: Location, alpha: MultiIndex) -> Float[Array, "..."]:
        return expand(parameters, self.bases, where, alpha)

    def fit(self, values: Float[Array, "n *grid"]) -> "Functions":
        return Functions(self, project(values, self.bases))


def project(values: Float[Array, "n *grid"], bases: tuple[Basis, ...]) -> Float[Array, "n *sizes"]:
    """The coefficients of the expansion nearest to values on a uniform grid; basis functions that are too fine for the
    grid get zero."""
    for basis, count in zip(bases, values.shape[1:], strict=True):
        matrix = jnp.asarray(_nearest(basis, count), values.dtype)
        # Contracts the first remaining axis of the grid and appends the basis, so the axes end up in order.
        values = jnp.tensordot(values, matrix, ((1,), (1,)), precision="highest")
    return values


@functools.cache
def _nearest(basis: Basis, count: int) -> Float64[np.ndarray, "size count"]:
    """The matrix of least squares, from values at `count` uniform points to coefficients, over as many of the first
    functions as the points can tell apart."""
    axis = basis.axis
    table = basis.table(np.linspace(axis.lower, axis.upper, count, endpoint=not axis.periodic))[0]
    # On an even number of points of a periodic axis the sine of the highest mode vanishes, so its phase is unseen.
    resolved = min(count - (axis.periodic and count % 2 == 0), basis.size)
    while np.linalg.cond(table[:, :resolved]) > 1e3:
        resolved -= 1
    return np.pad(np.linalg.pinv(table[:, :resolved]), ((0, basis.size - resolved), (0, 0)))


def normal(key: PRNGKeyArray, n: int, deviations: Float64[np.ndarray, "*sizes"]) -> Float[Array, "n *sizes"]:
    """Independent normal numbers `[n, *sizes]` with the standard deviations `deviations`; where many of these are zero,
    only the others are drawn."""
    flat = deviations.reshape(-1)
    varying = np.flatnonzero(flat)
    # To scatter numbers costs a tenth of drawing them, so a few that are drawn for nothing are left where they are.
    if varying.size > 0.9 * flat.size:
        varying = np.arange(flat.size)
    # Drawn as one flat array: the generator takes up to ten times longer to compile for arrays of three axes.
    numbers = jnp.asarray(flat[None, varying]) * jax.random.normal(key, (n, varying.size))
    if varying.size < flat.size:
        core = jnp.zeros((n, flat.size), numbers.dtype)
        numbers = core.at[:, varying].set(numbers, indices_are_sorted=True, unique_indices=True)
    return numbers.reshape(n, *deviations.shape)


def leading(deviations: Float64[np.ndarray, "*sizes"], share: float) -> Float64[np.ndarray, "*sizes"]:
    """The standard deviations of the products that carry the most variance, and zeros for the others, which carry no
    more than `share` of it in all; products of equal variance (the cosine and the sine of a wave) stay together."""
    variances = np.sort(deviations.reshape(-1) ** 2)
    least = variances[np.searchsorted(np.cumsum(variances), share * variances.sum(), side="right")]
    return np.where(deviations**2 >= (1 - 1e-9) * least, deviations, 0)


def expand(
    coefficients: Float[Array, "n *sizes"], bases: tuple[Basis, ...], where: Location, alpha: MultiIndex
) -> Float[Array, "..."]:
    """Coefficients `[n, *sizes]`, or `[n, components, *sizes]`, times the derivative `alpha` of the bases.

    The bases are in the order of the axes of `where`; components, if any, lead in the result.
    """
    if coefficients.ndim > 1 + len(bases):
        n, components, *sizes = coefficients.shape
        flat = expand(jnp.swapaxes(coefficients, 0, 1).reshape(components * n, *sizes), bases, where, alpha)
        return flat.reshape(components, n, *flat.shape[1:])
    orders = [order_along(alpha, name) for name in where.names]
    factors = [basis.derivative(x, m) for basis, x, m in zip(bases, where.points, orders, strict=True)]
    if isinstance(where, Grid):
        values = coefficients
        for factor in factors:
            # Contracts the first remaining basis axis and appends the points, so the axes end up in order.
            values = jnp.tensordot(values, factor, ((1,), (1,)), precision="highest")
        return values
    if coefficients.shape[0] == 1:
        # The products of all functions of the axes, which a batch would share, are many more than one function needs.
        values = jnp.tensordot(factors[0], coefficients[0], ((1,), (0,)), precision="highest")
        for factor in factors[1:]:
            values = jnp.einsum("pk,pk...->p...", factor, values, precision="highest")
        return values[None]
    products = factors[0]
    for factor in factors[1:]:
        products = (products[:, :, None] * factor[:, None, :]).reshape(products.shape[0], -1)
    return jnp.matmul(coefficients.reshape(coefficients.shape[0], -1), products.T, precision="highest")


def as_callable(functions: Functions, alpha: MultiIndex = ()) -> Callable[..., np.ndarray]:
    """The derivative `alpha` of a batch as a callable of the points along each of its axes, in float64."""

    def evaluate(*points: np.ndarray) -> np.ndarray:
        with double_precision():
            exact = jax.tree.map(lambda leaf: jnp.asarray(leaf, np.float64), functions)
            grid = Grid(functions.space.domain.names, tuple(jnp.asarray(p, np.float64) for p in points))
            return np.asarray(exact(grid, alpha))

    return evaluate


def take_rows(array: Array, rows: np.ndarray) -> Array:
    """Some rows of an array, by their numbers, each of which it has."""
    return jnp.take(array, rows, axis=0, mode="clip")
