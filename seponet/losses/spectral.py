r"""The residual of a model whose trunks along the periodic axes are trigonometric, measured in Fourier space.

The pointwise loss asks a residual to vanish at points. Here the same elementwise bodies are evaluated on a grid that is
fine enough for their products, and the residual is projected on the Fourier modes that the trunks have, as in
Galerkin's method:

$$\sum_{|k| \le K} |k|^{-2 \sigma}\, |\hat r_k|^2,$$

by Parseval's identity its mean square if all modes are kept and $\sigma = 0$. A smoothing of $\sigma = 1$ measures the
residual of a vorticity in the norm of a velocity. Derivatives are multiplications of the series, so a combination of
derivatives costs one transform, however many there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bases.fourier_grid import FourierGrid
from ..calculus.assembly import Assembly
from ..calculus.collocation import Collocation
from ..calculus.model import Model
from ..derivatives import MultiIndex, multi_index, order_along
from ..equations.linear_parts import Combination
from ..locations import Evaluable, Grid
from ..nn.seponet import SepONet
from .pointwise import Losses


@dataclass(frozen=True)
class SpectralResidual:
    """The residuals of a SepONet, measured in Fourier space along its periodic axes.

    It asks a model for more than `calculus.model.Model` has: its trunks and potentials.

    **Arguments:**

    - `smoothing`: the exponent sigma, one for all equations or one for each by name.
    """

    smoothing: float | Mapping[str, float] = 0.0

    def check(self, model: Model, methods: Sequence[str]) -> None:
        """A `ValueError` if a model has no spectral residual, on points drawn by the sampling `methods` of its axes."""
        model.fourier_grid()
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
        inputs: Mapping[str, Evaluable],
        collocation: Collocation,
        coefficients: Float[Array, "functions potentials *_"] | None,
        functions: int,
    ) -> Float[Array, "terms functions"]:
        """The mean squared residual of each equation for each function, `[terms, functions]`.

        **Arguments:**

        - `collocation`: a grid, uniform along the periodic axes.
        - `coefficients`: those of the basis functions; None takes the lift alone.
        - `functions`: the number of functions; a problem without inputs has one, which no input tells.
        """
        grid = collocation.where
        if not isinstance(grid, Grid):
            raise ValueError("a spectral residual lives on a grid; got scattered points")
        series = None if coefficients is None else _Series(model, grid, coefficients)
        torus = model.fourier_grid()
        lines = len(grid.shape) - len(torus.sizes)
        fine = FourierGrid(torus.domain, grid.shape[lines:])
        tables: list[Array] = []
        for piece in Assembly(model, inputs, collocation, functions, network=False).pieces:
            atoms = piece.parts.atoms
            residual = piece.combine([None if series is None else series.contract(atom, fine) for atom in atoms])
            squares = self._squares(residual, fine, torus, piece.term.name)
            for weights in reversed(collocation.weights[:lines]):
                squares = (
                    jnp.mean(squares, -1)
                    if weights is None
                    else jnp.tensordot(squares, weights, 1, precision="highest")
                )
            tables.append(squares)
        return jnp.stack(tables)

    def _squares(
        self, residual: Array, fine: FourierGrid, torus: FourierGrid, name: str
    ) -> Float[Array, "functions *lines"]:
        kept = FourierGrid(
            torus.domain, tuple(2 * min(k, m) + 1 for k, m in zip(torus.highest, fine.highest, strict=True))
        )
        series = fine.resize(fine.transform(residual), kept)
        exponent = self.smoothing.get(name, 0.0) if isinstance(self.smoothing, Mapping) else self.smoothing
        k_squared = kept.wavenumber_squared()
        # The mean has no wavelength: it counts like the mode of the smallest wavenumber.
        k_squared[(0,) * k_squared.ndim] = np.min(k_squared[k_squared > 0])
        weight = jnp.asarray(kept.multiplicity() * k_squared**-exponent, residual.dtype)
        squares = (series.real**2 + series.imag**2) * _spread(weight, series.ndim)
        return jnp.sum(squares, axis=tuple(range(series.ndim - weight.ndim, series.ndim)))

    def loss(
        self,
        model: SepONet,
        inputs: Mapping[str, Evaluable],
        collocation: Collocation,
        weights: Float[Array, "terms functions"],
        coefficients: Float[Array, "functions potentials *_"],
    ) -> Losses:
        """The weighted sum of the mean squares, as `pointwise.physics_loss` gives it; here the table has a gradient."""
        table = self.table(model, inputs, collocation, coefficients, coefficients.shape[0])
        return Losses(jnp.sum(weights * table), table)


class _Series:
    """The Fourier series, along the periodic axes, of a model's potentials and of their derivatives along the others.

    - `lines`: the axes that are not periodic; `tables` has their factors at the points of the grid.
    - `core`: the coefficients, as values on the FFT grid `torus`, `[functions, potentials, *line ranks, *torus sizes]`.
    - `known`: the series that were computed already, by potential and derivative along the lines.
    """

    def __init__(self, model: SepONet, grid: Grid, coefficients: Array) -> None:
        self.model, self.torus = model, model.fourier_grid()
        self.lines = model.problem.domain.names[: len(grid.shape) - len(self.torus.sizes)]
        highest = {name: model.problem.highest_order(name) for name in self.lines}
        trunks = dict(zip(model.problem.domain.names, model.trunks, strict=True))
        self.tables = [trunks[name](grid[name], highest[name]) for name in self.lines]
        core = coefficients
        for i, (name, n) in enumerate(zip(self.torus.domain, self.torus.sizes, strict=True)):
            axis = 2 + len(self.lines) + i
            bases = trunks[name].classical_bases
            # A nodal core holds values on the grid already; coefficients of Fourier functions are evaluated there.
            if bases is not None and not bases[0].nodal:
                interval = bases[0].axis
                nodes = interval.lower + interval.length * np.arange(n) / n
                values = jnp.asarray(bases[0].table(nodes)[0], core.dtype)
                core = jnp.moveaxis(jnp.tensordot(core, values, ((axis,), (1,)), precision="highest"), -1, axis)
        self.core = core
        self.known: dict[tuple[int, MultiIndex], Array] = {}

    def contract(self, atom: Combination, fine: FourierGrid) -> Array | None:
        """A sum of derivatives of fields on a finer grid, `[functions, *grid]`; None if it vanishes identically."""
        sums: dict[tuple[int, MultiIndex], dict[MultiIndex, float]] = {}
        fields, potentials = self.model.problem.fields, self.model.potentials
        for symbol, c in atom:
            index = fields.index(symbol.name)
            parts = [(c, index, symbol.alpha)]
            if potentials is not None:
                parts = potentials.derive(index, [(c, symbol.alpha)])
            for weight, j, alpha in parts:
                along = multi_index(**{name: order_along(alpha, name) for name in self.lines})
                across = multi_index(**{name: order_along(alpha, name) for name in self.torus.domain})
                group = sums.setdefault((j, along), {})
                group[across] = group.get(across, 0.0) + weight
        total: Array | None = None
        for (j, along), group in sums.items():
            if any(group.values()):
                symbol: Any = sum(c * self.torus.derivative_multiplier(alpha) for alpha, c in group.items())
                series = self._along(j, along)
                part = series * _spread(jnp.asarray(symbol, series.dtype), series.ndim)
                total = part if total is None else total + part
        return None if total is None else fine.inverse(self.torus.resize(total, fine))

    def _along(self, potential: int, along: MultiIndex) -> Array:
        if (potential, along) not in self.known:
            core = self.core[:, potential]
            for axis, (name, table) in enumerate(zip(self.lines, self.tables, strict=True), start=1):
                factor = table[order_along(along, name), potential]
                core = jnp.moveaxis(jnp.tensordot(core, factor, ((axis,), (0,)), precision="highest"), -1, axis)
            self.known[potential, along] = self.torus.transform(core)
        return self.known[potential, along]


def _spread(array: Array, rank: int) -> Array:
    return array.reshape((1,) * (rank - array.ndim) + array.shape)
