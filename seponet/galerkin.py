r"""The residual of a model whose trunks along the periodic axes are trigonometric, measured in Fourier space.

The pointwise loss asks a residual to vanish at points. Here the same elementwise bodies are evaluated on a grid that is
fine enough for their products, and the residual is projected on the waves that the trunks have, as in Galerkin's
method:

$$\sum_{|k| \le K} |k|^{-2 \sigma}\, |\hat r_k|^2,$$

by Parseval's identity its mean square if all waves are kept and $\sigma = 0$. A smoothing of $\sigma = 1$ measures the
residual of a vorticity in the norm of a velocity. Derivatives are multiplications of the series, so a combination of
derivatives costs one transform, however many there are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .basis import quadrature
from .calculus import combine, fuse_term, known_parts
from .domain import MultiIndex, multi_index, order
from .fusion import Combination
from .locations import Evaluator, Grid
from .loss import Collocation, Losses
from .nn.fixed import Fixed
from .nn.seponet import SepONet
from .nn.whitening import ModalScaling
from .nodal import Nodal
from .torus import Torus


@dataclass(frozen=True)
class Galerkin:
    """The spectral residuals of SepONets.

    **Arguments:**

    - `smoothing`: the exponent sigma, for each equation by name or one for all.
    """

    smoothing: float | Mapping[str, float] = 0.0

    def check(self, model: Any, methods: Sequence[str]) -> None:
        """Whether a model has a spectral residual, on points drawn by `methods`."""
        torus_of(model)
        soft = [term.name for term in model.problem.terms(model.exact) if term.face is not None]
        if soft:
            raise ValueError(
                f'residual = "spectral" needs exact conditions; soft are {", ".join(soft)} (set model.exact)'
            )
        names = [term.name for term in model.problem.equations]
        if unknown := sorted(set(self.smoothing) - set(names)) if isinstance(self.smoothing, Mapping) else []:
            raise ValueError(f"train.smoothing names {', '.join(unknown)}; the equations are {', '.join(names)}")
        if set(methods) != {"gauss"}:
            raise ValueError(f'residual = "spectral" needs quadrature points: sampling = "gauss"; got {methods}')

    def table(
        self,
        model: SepONet,
        inputs: Mapping[str, Evaluator],
        collocation: Collocation,
        coefficients: Float[Array, "functions potentials *_"] | None,
        functions: int,
    ) -> Float[Array, "terms functions"]:
        """The mean squared residuals of each equation and function; without coefficients those of the lift alone."""
        grid = collocation.where
        if not isinstance(grid, Grid):
            raise ValueError("a spectral residual lives on a grid; got scattered points")
        series = None if coefficients is None else _Series(model, grid, coefficients)
        torus = torus_of(model)
        lines = len(grid.shape) - len(torus.sizes)
        fine = Torus(torus.domain, grid.shape[lines:])
        lifts = model.lifts(inputs)
        shape = (functions, *grid.shape)
        made: list[Array] = []
        for term in model.problem.terms(model.exact):
            fused = fuse_term(term, shape, [(1.0, grid)], inputs, grid.points[0].dtype)
            known = known_parts(term, fused, [(1.0, grid)], inputs, lifts)
            values: list[Array] = []
            for atom, lift in zip(fused.atoms, known.lifted, strict=True):
                own = None if series is None else series.contract(atom, fine)
                parts = [part for part in (own, lift) if part is not None]
                values.append(sum(parts[1:], parts[0]) if parts else jnp.zeros((1,) * len(shape)))
            residual = jnp.broadcast_to(combine(term, fused, known, values), shape)
            squares = self._squares(residual, fine, torus, term.name)
            for weights in reversed(collocation.weights[:lines]):
                squares = (
                    jnp.mean(squares, -1)
                    if weights is None
                    else jnp.tensordot(squares, weights, 1, precision="highest")
                )
            made.append(squares)
        return jnp.stack(made)

    def _squares(self, residual: Array, fine: Torus, torus: Torus, name: str) -> Float[Array, "functions *lines"]:
        kept = Torus(torus.domain, tuple(2 * min(k, m) + 1 for k, m in zip(torus.highest, fine.highest, strict=True)))
        series = fine.resize(fine.transform(residual), kept)
        power = self.smoothing.get(name, 0.0) if isinstance(self.smoothing, Mapping) else self.smoothing
        square = kept.square()
        # The mean has no wavelength: it counts like the longest wave.
        square[(0,) * square.ndim] = np.min(square[square > 0])
        weight = jnp.asarray(kept.multiplicity() * square**-power, residual.dtype)
        squares = (series.real**2 + series.imag**2) * _spread(weight, series.ndim)
        return jnp.sum(squares, axis=tuple(range(series.ndim - weight.ndim, series.ndim)))

    def loss(
        self,
        model: SepONet,
        inputs: Mapping[str, Evaluator],
        collocation: Collocation,
        weights: Float[Array, "terms functions"],
        coefficients: Float[Array, "functions potentials *_"],
    ) -> Losses:
        """The weighted sum of the mean squares, as `loss.physics_loss` gives it; here the table has a gradient too."""
        table = self.table(model, inputs, collocation, coefficients, coefficients.shape[0])
        return Losses(jnp.sum(weights * table), table)


def torus_of(model: Any) -> Torus:
    """The grid of the periodic axes on which a model's core, or what it says of a core, is a field."""
    if not isinstance(model, SepONet):
        raise ValueError(f"spectral residuals are for SepONets; got a {type(model).__name__}")
    domain = model.problem.domain
    circles = [name for name, axis in domain.axes if axis.periodic]
    if not circles or tuple(circles) != domain.names[-len(circles) :] or not set(circles) <= set(model.exact):
        raise ValueError(
            f"spectral residuals need exactly periodic axes, declared last; the axes are {', '.join(domain)} "
            f"with {', '.join(circles) or 'none'} periodic and {', '.join(model.exact) or 'none'} exact"
        )
    sizes: list[int] = []
    for name, trunk in zip(domain.names, model.trunks, strict=True):
        if name in circles:
            bases = getattr(trunk, "bases", None)
            if bases is None or len(getattr(model.decoder, "sizes", ())) != len(domain):
                raise ValueError(f"spectral residuals need a Tucker decoder and a nodal or Fourier trunk along {name}")
            sizes.append(bases[0].size if isinstance(bases[0], Nodal) else bases[0].size | 1)
    return Torus(domain[tuple(circles)], tuple(sizes))


class _Series:
    """The Fourier series of a model's potentials on the lines' points, and of their derivatives along the lines."""

    def __init__(self, model: SepONet, grid: Grid, coefficients: Array) -> None:
        self.model, self.torus = model, torus_of(model)
        self.lines = model.problem.domain.names[: len(grid.shape) - len(self.torus.sizes)]
        highest = {name: model.problem.highest_order(name) for name in self.lines}
        trunks = dict(zip(model.problem.domain.names, model.trunks, strict=True))
        self.tables = [trunks[name](grid[name], highest[name]) for name in self.lines]
        core = coefficients
        for i, (name, n) in enumerate(zip(self.torus.domain, self.torus.sizes, strict=True)):
            axis = 2 + len(self.lines) + i
            basis = trunks[name].bases[0]  # pyright: ignore[reportAttributeAccessIssue]
            if not isinstance(basis, Nodal):
                line = basis.axis
                values = jnp.asarray(basis.table(line.lower + line.length * np.arange(n) / n)[0], core.dtype)
                core = jnp.moveaxis(jnp.tensordot(core, values, ((axis,), (1,)), precision="highest"), -1, axis)
        self.core = core
        self.known: dict[tuple[int, MultiIndex], Array] = {}

    def contract(self, atom: Combination, fine: Torus) -> Array | None:
        """An atom on a finer grid; None if it vanishes identically."""
        sums: dict[tuple[int, MultiIndex], dict[MultiIndex, float]] = {}
        fields, made = self.model.problem.fields, self.model.potentials
        for symbol, c in atom:
            index = fields.index(symbol.name)
            parts = [(c, index, symbol.alpha)] if made is None else made.derive(index, [(c, symbol.alpha)])
            for weight, j, alpha in parts:
                along = multi_index(**{name: order(alpha, name) for name in self.lines})
                across = multi_index(**{name: order(alpha, name) for name in self.torus.domain})
                group = sums.setdefault((j, along), {})
                group[across] = group.get(across, 0.0) + weight
        total: Array | None = None
        for (j, along), group in sums.items():
            if any(group.values()):
                symbol: Any = sum(c * self.torus.symbol(alpha) for alpha, c in group.items())
                series = self._along(j, along)
                part = series * _spread(jnp.asarray(symbol, series.dtype), series.ndim)
                total = part if total is None else total + part
        return None if total is None else fine.inverse(self.torus.resize(total, fine))

    def _along(self, potential: int, along: MultiIndex) -> Array:
        if (potential, along) not in self.known:
            core = self.core[:, potential]
            for axis, (name, table) in enumerate(zip(self.lines, self.tables, strict=True), start=1):
                factor = table[order(along, name), potential]
                core = jnp.moveaxis(jnp.tensordot(core, factor, ((axis,), (0,)), precision="highest"), -1, axis)
            self.known[potential, along] = self.torus.transform(core)
        return self.known[potential, along]


def _spread(array: Array, rank: int) -> Array:
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


def modal_weights(model: SepONet) -> Float[np.ndarray, "components *half_grid"]:
    """One over what a wave of a component does to the equations' highest derivatives along the lines.

    With the time derivative dominating, c = z / (gain of the potentials |d/dt of the basis function|) gives every
    component of z about the same effect on the residual.
    """
    torus = torus_of(model)
    domain, made = model.problem.domain, model.potentials
    scale = np.ones((1, 1))
    for name, trunk in zip(domain.names, model.trunks, strict=True):
        if name not in torus.domain:
            axis, m = domain.axis(name), model.problem.highest_order(name)
            points, weights = quadrature(axis, 64)
            basis = trunk.bases[0]  # pyright: ignore[reportAttributeAccessIssue]
            norms = np.sqrt(weights @ basis.table(points, m)[m] ** 2 / axis.length)
            scale = (scale[:, :, None] / norms).reshape(1, -1)
    gain = np.ones((1,) * len(torus.sizes)) if made is None else made.gain(torus.waves())
    gain = np.broadcast_to(gain, (*torus.sizes[:-1], torus.sizes[-1] // 2 + 1))
    count = model.coefficient_shape()[0]
    rows = np.repeat(scale, count, axis=0).reshape(-1, *(1,) * gain.ndim)
    inverse = np.where(gain > 0, 1 / np.where(gain > 0, gain, 1), 0)
    highest = math.prod(  # the sawtooth of an even number of nodes has no derivative
        (np.abs(np.rint(k * axis.length / (2 * np.pi))) <= (n - 1) // 2)
        for k, n, (_, axis) in zip(torus.waves().values(), torus.sizes, torus.domain.axes, strict=True)
    )
    return rows * (inverse * highest)[None]


def scale_modes(
    model: Any,
    galerkin: Galerkin,
    inputs: Mapping[str, Evaluator],
    collocation: Collocation,
    weights: Float[Array, " terms"],
    amplitude: float,
) -> Any:
    """With a `ModalScaling`; outputs of size 1 / `amplitude` can cancel what the lift leaves of the equations.

    **Arguments:**

    - `inputs`, `collocation`, `weights`: a sample of functions, and the loss over which its size is measured.
    """
    functions = len(next(iter(inputs.values())))  # pyright: ignore[reportArgumentType]
    left = eqx.filter_jit(galerkin.table)(model, inputs, collocation, None, functions)
    size = float(jnp.sqrt(jnp.mean(jnp.sum(weights[:, None] * left, axis=0))))
    scaling = ModalScaling(Fixed(jnp.asarray(amplitude * size * modal_weights(model))), torus_of(model).sizes)
    return eqx.tree_at(lambda m: m.whitening, model, scaling, is_leaf=lambda leaf: leaf is None)
