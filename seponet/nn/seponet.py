"""The separable operator network."""

from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx

from ..calculus.basis_values import BasisValues, Request, separable_values
from ..calculus.potentials import Potentials, PotentialValues
from ..equations.problem import Problem
from ..equations.terms import Face
from ..locations import Location
from .coefficient_maps import Scaling
from .decoders import CP, Tucker
from .model import AnyBranch, OperatorNetwork, Sensors
from .translation import Translation
from .trunks import Trunk


class SepONet(OperatorNetwork):
    r"""$s = \text{lift}(u) + \sum_k \beta_k(u) \prod_n \tau_{nk}(y_n)$ (Yu et al., arXiv 2407.11253), CP or Tucker.

    Without inputs, the coefficients are constants and this is a separable PINN. `nn.build` makes one from a
    configuration.

    **Arguments:**

    - `trunks`: one for each axis of the problem's domain, in order.
    - `decoder`: `CP` or `Tucker`.
    - `potentials`: what the coefficients are of, if not of the fields themselves.
    - the others: see `OperatorNetwork`.
    """

    separable: ClassVar[bool] = True

    problem: Problem = eqx.field(static=True)
    exact: tuple[str, ...] = eqx.field(static=True)
    sensors: Sensors = eqx.field(static=True)
    branch: AnyBranch
    trunks: tuple[Trunk, ...]
    decoder: CP | Tucker = eqx.field(static=True)
    whitening: Scaling | None = None
    potentials: Potentials | None = eqx.field(static=True, default=None)
    translation: Translation | None = None

    @property
    def materialised_rank(self) -> int:
        return self.decoder.materialised_rank

    def coefficient_shape(self) -> tuple[int, ...]:
        count = len(self.problem.fields) if self.potentials is None else self.potentials.count
        return (count, *self.decoder.shape(len(self.trunks)))

    def basis_values(self, where: Location, boundary: Location, request: Request) -> Mapping[Face | None, BasisValues]:
        names, made = self.problem.domain.names, self.potentials
        wanted = request if made is None else made.request(request)
        found = separable_values(names, self.trunks, self.decoder, where, boundary, wanted)
        return found if made is None else {face: PotentialValues(local, made) for face, local in found.items()}
