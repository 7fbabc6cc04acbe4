r"""Fields that are derivatives of potentials, so that a constraint such as div v = 0 holds identically.

With one potential $\psi$ the velocity $(\psi_y, -\psi_x)$ has no divergence, wherever and however it is evaluated. The
network then has coefficients for potentials, and a derivative of a field is a contraction of them with shifted
multi-indices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import equinox as eqx
import numpy as np
from jaxtyping import Array

from ..derivatives import MultiIndex, compose, multi_index
from ..equations.terms import Face
from .basis_values import BasisValues, Factors, Request, Weighted, weighted_sum

Part = tuple[float, int, MultiIndex]
"""A term of a field: its factor, which potential, and which derivative of it."""


@dataclass(frozen=True)
class Potentials:
    """For each field the sum of derivatives of potentials that makes it.

    **Arguments:**

    - `count`: how many potentials.
    - `fields`: for each field its terms.
    """

    count: int
    fields: tuple[tuple[Part, ...], ...]

    def derive(self, field: int, combination: Weighted) -> list[Part]:
        """A combination of derivatives of a field, as a sum of derivatives of potentials."""
        return [(c * w, j, compose(alpha, beta)) for c, alpha in combination for w, j, beta in self.fields[field]]

    def request(self, request: Request) -> dict[Face | None, frozenset[MultiIndex]]:
        """The derivatives of potentials that derivatives of fields need."""
        shifts = {beta for parts in self.fields for _, _, beta in parts}
        return {face: frozenset(compose(a, b) for a in alphas for b in shifts) for face, alphas in request.items()}

    def gain(self, wavenumbers: Mapping[str, np.ndarray]) -> np.ndarray:
        """The Euclidean norm of all fields for one Fourier mode of unit amplitude in every potential, at each
        combination of the wavenumbers along the axes."""
        squares = np.zeros(np.broadcast_shapes(*(k.shape for k in wavenumbers.values())))
        for parts in self.fields:
            modes = [w * np.prod([(1j * wavenumbers[n]) ** m for n, m in beta], axis=0) for w, _, beta in parts]
            squares = squares + np.abs(sum(modes)) ** 2
        return np.sqrt(squares)


def curl(x: str, y: str) -> Potentials:
    r"""$(\psi_y, -\psi_x)$: two fields along the axes x and y without divergence."""
    return Potentials(1, (((1.0, 0, multi_index(**{y: 1})),), ((-1.0, 0, multi_index(**{x: 1})),)))


class PotentialValues(eqx.Module):
    """The basis functions of potentials, contracted as those of the fields that are made from them.

    **Arguments:**

    - `inner`: the basis functions of the potentials, with all derivatives that `Potentials.request` names.
    - `potentials`: which derivatives of them make each field.
    """

    inner: BasisValues
    potentials: Potentials = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inner.shape

    def contract(self, coefficients: Array, field: int, combination: Weighted) -> Array:
        parts = self._by_potential(field, combination)
        return weighted_sum((1.0, self.inner.contract(coefficients, j, terms)) for j, terms in parts)

    def flops(self, field: int, combination: Weighted) -> int:
        return sum(self.inner.flops(j, terms) for j, terms in self._by_potential(field, combination))

    def split(self, axis: int = 0) -> tuple[tuple[Array, ...], "PotentialValues"]:
        rows, rest = self.inner.split(axis)
        return rows, PotentialValues(rest, self.potentials)

    def join(self, rows: tuple[Array, ...], axis: int = 0) -> "PotentialValues":
        return PotentialValues(self.inner.join(rows, axis), self.potentials)

    def ranks(self) -> tuple[int, ...] | None:
        return self.inner.ranks()

    def factors(self, names: tuple[str, ...]) -> Factors | None:
        inner = self.inner.factors(names)
        return None if inner is None else inner._replace(owner="potential")

    def _by_potential(self, field: int, combination: Weighted) -> Sequence[tuple[int, Weighted]]:
        parts = self.potentials.derive(field, combination)
        return [(j, [(c, alpha) for c, i, alpha in parts if i == j]) for j in sorted({j for _, j, _ in parts})]
