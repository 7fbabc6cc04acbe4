"""The separable operator network."""

from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx

from ..conditions import Face
from ..features import Request, Separable, separable_features
from ..locations import Where
from ..problem import Problem
from .branch import Branch, Constant
from .decoders import CP, Tucker
from .model import OperatorNetwork, Sensors
from .trunks import Trunk
from .whitening import Whitening


class SepONet(OperatorNetwork):
    r"""$s = \text{lift}(u) + \sum_k \beta_k(u) \prod_n \tau_{nk}(y_n)$ (Yu et al., arXiv 2407.11253), CP or Tucker.

    Without inputs, the coefficients are constants and this is a separable PINN. `nn.build` makes one from a
    configuration.

    **Arguments:**

    - `trunks`: one for each axis of the problem's domain, in order.
    - `decoder`: `CP` or `Tucker`.
    - the others: see `OperatorNetwork`.
    """

    separable: ClassVar[bool] = True

    problem: Problem = eqx.field(static=True)
    exact: tuple[str, ...] = eqx.field(static=True)
    sensors: Sensors = eqx.field(static=True)
    branch: Branch | Constant
    trunks: tuple[Trunk, ...]
    decoder: CP | Tucker = eqx.field(static=True)
    whitening: Whitening | None = None

    @property
    def laid_out(self) -> int:
        return self.decoder.laid_out

    def coefficient_shape(self) -> tuple[int, ...]:
        return (len(self.problem.fields), *self.decoder.shape(len(self.trunks)))

    def features(self, where: Where, boundary: Where, request: Request) -> Mapping[Face | None, Separable]:
        return separable_features(self.problem.domain.names, self.trunks, self.decoder, where, boundary, request)
