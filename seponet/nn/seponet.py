"""The separable operator network."""

from collections.abc import Mapping

import equinox as eqx

from ..bases.fourier_grid import FourierGrid
from ..calculus.basis_values import BasisValues, Request, separable_values
from ..calculus.decoder import AbstractDecoder
from ..calculus.kinks import smooth_lift
from ..calculus.model import Sensors
from ..calculus.potentials import Potentials, PotentialValues
from ..discretise.discretisation import Discretisation
from ..equations.problem import Problem
from ..equations.terms import Face
from ..locations import Evaluable, Location
from .branch import AbstractBranch
from .coefficient_maps import AbstractCoefficientMap
from .model import OperatorNetwork
from .translation import Translation
from .trunks import AbstractTrunk


class SepONet(OperatorNetwork):
    r"""$s = \text{lift}(u) + \sum_k \beta_k(u) \prod_n \tau_{nk}(y_n)$ (Yu et al., arXiv 2407.11253), or
    with another decoder.

    Without inputs, the coefficients are constants and this is a separable PINN. `nn.build` makes one from a
    configuration; trunks, decoders, branches and coefficient maps of your own are subclasses of `AbstractTrunk`,
    `AbstractDecoder`, `AbstractBranch` and `AbstractCoefficientMap`.

    **Arguments:**

    - `trunks`: one for each axis of the problem's domain, in order.
    - `decoder`: `CP`, `Tucker` or another one.
    - `potentials`: the potentials that coefficients belong to, and the fields that derivatives of them make; None if
        coefficients belong to the fields themselves.
    - `smoothed`: the axes along which the data of exact conditions have kinks (`calculus/kinks.py`).
    - the others: see `OperatorNetwork`.
    """

    problem: Problem = eqx.field(static=True)
    exact: tuple[str, ...] = eqx.field(static=True)
    sensors: Sensors = eqx.field(static=True)
    branch: AbstractBranch
    trunks: tuple[AbstractTrunk, ...]
    decoder: AbstractDecoder = eqx.field(static=True)
    whitening: AbstractCoefficientMap | None = None
    potentials: Potentials | None = eqx.field(static=True, default=None)
    translation: Translation | None = None
    smoothed: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def separable(self) -> bool:
        return True

    @property
    def materialised_rank(self) -> int:
        return self.decoder.materialised_rank

    @property
    def has_fixed_basis(self) -> bool:
        return all(trunk.classical_bases is not None for trunk in self.trunks)

    @property
    def discretisation(self) -> Discretisation | None:
        """The discretisation whose trial functions are this model's basis functions; None if they are learned, of
        another kind, not products with one coefficient each, or derivatives of potentials."""
        if not self.has_fixed_basis or not self.decoder.has_core or self.potentials is not None:
            return None
        periodic = {name for name, axis in self.problem.domain.axes if axis.periodic}
        if not periodic <= set(self.exact):
            return None
        ranks = tuple(zip(self.problem.domain.names, self.decoder.ranks(len(self.trunks)), strict=True))
        discretisation = Discretisation(self.problem, self.exact, ranks, self.smoothed)
        same = tuple(trunk.classical_bases for trunk in self.trunks) == discretisation.bases
        return discretisation if same else None

    def coefficient_shape(self) -> tuple[int, ...]:
        count = len(self.problem.fields) if self.potentials is None else self.potentials.count
        return (count, *self.decoder.shape(len(self.trunks)))

    def basis_values(self, where: Location, boundary: Location, request: Request) -> Mapping[Face | None, BasisValues]:
        names, potentials = self.problem.domain.names, self.potentials
        if potentials is None:
            return separable_values(names, self.trunks, self.decoder, where, boundary, request)
        values = separable_values(names, self.trunks, self.decoder, where, boundary, potentials.request(request))
        return {face: PotentialValues(local, potentials) for face, local in values.items()}

    def lifts(self, inputs: Mapping[str, Evaluable]) -> dict[str, Evaluable | None]:
        completed = self.problem.complete(inputs)
        ranks = dict(zip(self.problem.domain.names, self.decoder.ranks(len(self.trunks)), strict=True))
        return {
            field: smooth_lift(self.problem, field, self.exact, completed, self.smoothed, ranks)
            for field in self.problem.fields
        }

    def fourier_grid(self) -> FourierGrid:
        domain = self.problem.domain
        periodic = [name for name, axis in domain.axes if axis.periodic]
        if not periodic or tuple(periodic) != domain.names[-len(periodic) :] or not set(periodic) <= set(self.exact):
            raise ValueError(
                f"spectral residuals need exactly periodic axes, declared last; the axes are {', '.join(domain)} "
                f"with {', '.join(periodic) or 'none'} periodic and {', '.join(self.exact) or 'none'} exact"
            )
        sizes: list[int] = []
        for name, trunk in zip(domain.names, self.trunks, strict=True):
            if name in periodic:
                if trunk.classical_bases is None or not self.decoder.has_core:
                    raise ValueError(
                        f"spectral residuals need a Tucker decoder and a nodal or Fourier trunk along {name}"
                    )
                basis = trunk.classical_bases[0]
                sizes.append(basis.size if basis.nodal else basis.size | 1)
        return FourierGrid(domain[tuple(periodic)], tuple(sizes))
