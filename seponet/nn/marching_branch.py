r"""A branch that marches through time: one network for a short window, applied again and again.

$$v_{k+1} = v_k + N(v_k)_m, \qquad s(t_k + \tau_a) \approx v_k + N(v_k)_a, \quad a = 1 .. m,$$

on a grid of the axes of space. The law of an evolution equation is the same at all times (`equations/evolution.py`), so
every window of every solved function teaches the same network; over a short window an operator is nearly linear, and
local. Blocks of filters (`axis_filter.py`) keep that: they treat all places alike, so a few hundred states of hundreds
of numbers are enough where a dense network would need their square. The polynomials of degree m in the windows are then
projected on the basis functions of time, and the grid on those of space.
"""

import math
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from ..bases.base import Basis
from ..bases.quadrature import quadrature
from ..domain import Interval
from .axis_filter import GridFilter
from .branch import AbstractBranch
from .field_block import FieldBlock, mix_channels
from .fixed import Fixed
from .linear import Linear, split


class MarchingBranch(AbstractBranch):
    """Initial states on a grid to the coefficients of solutions, window by window.

    **Arguments:**

    - `initial`: for each field the input that it starts from; empty if it starts from zero.
    - `parameters`: for each other input, which axes of the grid it depends on.
    - `scales`: the size of each input.
    - `grid`, `periodic`: points along each axis of space, with both ends of intervals.
    - `marked`: the axes along which places differ; the network sees the coordinate there.
    - `place`: where the axis of time stands among those of the domain.
    - `time`: from values at the nodes of all windows to basis functions of time, `[rank, windows, nodes]`.
    - `space`: for each axis from values to basis functions, `[rank, points]`.
    - `width`, `blocks`, `reach`: channels, blocks in a window, and of the kernels at the start.
    - `key`: for the initialisation. The last layer starts from zero: states that stay as they are.
    """

    initial: tuple[str, ...] = eqx.field(static=True)
    parameters: tuple[tuple[str, tuple[int, ...]], ...] = eqx.field(static=True)
    grid: tuple[int, ...] = eqx.field(static=True)
    periodic: tuple[bool, ...] = eqx.field(static=True)
    marked: tuple[int, ...] = eqx.field(static=True)
    place: int = eqx.field(static=True)
    scales: dict[str, Fixed]
    increments: Fixed
    time: Fixed
    space: tuple[Fixed, ...]
    first: Linear
    blocks: tuple[FieldBlock, ...]
    skip: GridFilter
    last: Linear

    def __init__(
        self,
        initial: tuple[str, ...],
        parameters: Mapping[str, tuple[int, ...]],
        scales: Mapping[str, float],
        grid: tuple[int, ...],
        periodic: tuple[bool, ...],
        marked: tuple[int, ...],
        place: int,
        time: Float[np.ndarray, "rank windows nodes"],
        space: tuple[Float[np.ndarray, "_ _"], ...],
        *,
        width: int,
        blocks: int,
        reach: int,
        key: PRNGKeyArray,
    ) -> None:
        self.initial, self.parameters = initial, tuple(sorted(parameters.items()))
        self.grid, self.periodic, self.marked, self.place = grid, periodic, marked, place
        self.scales = {name: Fixed(jnp.asarray(float(size))) for name, size in scales.items()}
        self.time, self.space = Fixed(jnp.asarray(time)), tuple(Fixed(jnp.asarray(matrix)) for matrix in space)
        fields, outputs = len(initial), len(initial) * (time.shape[2] - 1)
        self.increments = Fixed(jnp.full(outputs, 0.1))
        keys = split(key, blocks + 3)
        channels = fields + len(parameters) + sum(2 if periodic[axis] else 1 for axis in marked)
        self.first = Linear(channels, width, key=keys[0])
        self.skip = GridFilter(grid, periodic, outputs, None, key=keys[1])
        self.last = Linear(width + outputs, outputs, zero=True, key=keys[2])
        self.blocks = tuple(
            FieldBlock(lambda k: GridFilter(grid, periodic, width, reach, key=k), width, key=key) for key in keys[3:]
        )

    @property
    def windows(self) -> int:
        return self.time.value.shape[1]

    @property
    def degree(self) -> int:
        """Of the polynomials in a window."""
        return self.time.value.shape[2] - 1

    def __call__(self, sensor_values: Mapping[str, Array]) -> Float[Array, "functions size"]:
        known = {name for name in self.initial if name} | {name for name, _ in self.parameters}
        if set(sensor_values) != known:
            expected, got = ", ".join(sorted(known)), ", ".join(sorted(sensor_values)) or "none"
            raise ValueError(f"the branch was built for the inputs {expected}; got {got}")
        state = jnp.stack([self._initial(name, sensor_values) for name in self.initial])
        constant = self._constant_channels(sensor_values, state)

        def march(change: Array, _: None) -> tuple[Array, Array]:
            window = self._window(state + change, constant)
            return change + window[-1], jnp.concatenate([change[None], change[None] + window])

        return self._coefficients(jax.lax.scan(march, jnp.zeros_like(state), None, self.windows)[1])

    def adapted(
        self, basis: Sequence[Basis], coefficients: Float[np.ndarray, "functions fields *ranks"]
    ) -> "MarchingBranch":
        """With outputs that are one where a state has changed as much as states do since a window began."""
        time = basis[self.place]
        nodes = (np.arange(self.windows)[:, None] + window_nodes(self.degree)) / self.windows
        values = time.table(time.axis.lower + time.axis.length * nodes.reshape(-1))[0].reshape(*nodes.shape, -1)
        change = values[:, 1:] - values[:, :1]
        # Along orthonormal functions of space the sum of squares is an integral over space.
        c = np.moveaxis(np.asarray(coefficients, np.float64), 2 + self.place, -1)
        c = c.reshape(*c.shape[:2], -1, c.shape[-1])
        gram = np.einsum("nfxr,nfxs->frs", c, c, optimize=True) / len(c)
        squares = np.einsum("kar,frs,kas->af", change, gram, change) / self.windows
        volume = math.prod(b.axis.length for place, b in enumerate(basis) if place != self.place)
        sizes = np.sqrt(np.maximum(squares, 1e-12 * np.max(squares)) / volume)
        return eqx.tree_at(lambda b: b.increments.value, self, jnp.asarray(sizes.reshape(-1), float))

    def _initial(self, name: str, sensor_values: Mapping[str, Array]) -> Float[Array, "functions *grid"]:
        """The initial values of a field, or zero."""
        if name:
            return sensor_values[name]
        return jnp.zeros_like(sensor_values[next(name for name in self.initial if name)])

    def _constant_channels(
        self, sensor_values: Mapping[str, Array], state: Float[Array, "fields functions *grid"]
    ) -> Float[Array, "channels functions *grid"]:
        """What is the same in all windows: parameters, and coordinates where places differ."""
        shape = state.shape[1:]
        channels: list[Array] = []
        for name, axes in self.parameters:
            values = sensor_values[name] / self.scales[name]()
            sizes = [n if i in axes else 1 for i, n in enumerate(self.grid)]
            channels.append(jnp.broadcast_to(values.reshape(shape[0], *sizes), shape))
        for axis in self.marked:
            n, sizes = self.grid[axis], [1, *(n if i == axis else 1 for i, n in enumerate(self.grid))]
            angle = 2 * np.pi * np.arange(n) / n
            coordinates = [np.cos(angle), np.sin(angle)] if self.periodic[axis] else [np.linspace(-1, 1, n)]
            channels += [jnp.broadcast_to(jnp.asarray(x, state.dtype).reshape(sizes), shape) for x in coordinates]
        return jnp.stack(channels) if channels else jnp.zeros((0, *shape), state.dtype)

    def _window(
        self, state: Float[Array, "fields functions *grid"], constant: Float[Array, "channels functions *grid"]
    ) -> Float[Array, "nodes fields functions *grid"]:
        """How far the state has changed at the nodes of a window that it begins."""
        scales = jnp.stack([self.scales[name]() if name else jnp.ones(()) for name in self.initial])
        state = state / scales.reshape(-1, *(1,) * (state.ndim - 1))
        x = mix_channels(self.first, jnp.concatenate([state, constant]))
        for block in self.blocks:
            x = block(x)
        linear = self.skip(jnp.concatenate([state] * self.degree))
        outputs = mix_channels(self.last, jnp.concatenate([x, linear]))
        outputs = outputs * self.increments().reshape(-1, *(1,) * (outputs.ndim - 1))
        return outputs.reshape(self.degree, *state.shape)

    def _coefficients(self, changes: Float[Array, "windows nodes fields functions *grid"]) -> Array:
        c = jnp.tensordot(self.time(), changes, ((1, 2), (0, 1)), precision="highest")
        for axis, matrix in enumerate(self.space):
            c = jnp.moveaxis(jnp.tensordot(c, matrix(), ((3 + axis,), (1,)), precision="highest"), -1, 3 + axis)
        # [time, fields, functions, *space] to [functions, fields, *axes of the domain].
        c = jnp.moveaxis(jnp.moveaxis(c, 2, 0), 1, 2 + self.place)
        return c.reshape(c.shape[0], -1)


def window_nodes(degree: int) -> Float64[np.ndarray, " nodes"]:
    """Where a window is looked at, from its begin 0 to its end 1: Chebyshev's points."""
    return (1 - np.cos(np.pi * np.arange(degree + 1) / degree)) / 2


def project_windows(basis: Basis, windows: int, degree: int) -> Float64[np.ndarray, "rank windows nodes"]:
    """From values at the nodes of all windows to the L2 projection of their piecewise polynomial on a basis."""
    axis, nodes = basis.axis, window_nodes(degree)
    points, weights = quadrature(Interval(0.0, 1.0), basis.size + degree + 2)
    others = nodes[:, None] != nodes[None]
    differences = points[:, None, None] - nodes[None, None]
    factors = np.where(others, differences / np.where(others, nodes[:, None] - nodes[None], 1.0), 1.0)
    lagrange = np.prod(factors, axis=2) * weights[:, None] * axis.length / windows
    begins = axis.lower + axis.length * np.arange(windows) / windows
    tables = [basis.table(begin + axis.length * points / windows)[0] for begin in begins]
    return np.stack([table.T @ lagrange for table in tables], axis=1)
