"""The deep operator network: one trunk of all coordinates, differentiated in forward mode."""

from collections.abc import Callable, Mapping

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bases.fourier_grid import FourierGrid
from ..calculus import taylor
from ..calculus.basis_values import JointValues, Request, joint_values
from ..calculus.model import Sensors
from ..calculus.projectors import make_projectors
from ..derivatives import MultiIndex, order_along
from ..equations.problem import Problem
from ..equations.terms import Face
from ..locations import Evaluable, Grid, Location
from .branch import AbstractBranch
from .coefficient_maps import AbstractCoefficientMap
from .model import OperatorNetwork, no_fourier_grid
from .translation import Translation


class DeepONet(OperatorNetwork):
    r"""$s = \text{lift}(u) + \sum_k \beta_k(u)\, \tau_k(y)$ with a trunk shared by all functions, in forward mode.

    The derivatives of the trunk are computed once for all functions. Without inputs this is a PINN.

    **Arguments:**

    - `trunk`: a network `[points, axes] -> [points, fields * rank]`.
    - `rank`: the number of basis functions of each field.
    - the others: see `OperatorNetwork`.
    """

    problem: Problem = eqx.field(static=True)
    exact: tuple[str, ...] = eqx.field(static=True)
    sensors: Sensors = eqx.field(static=True)
    branch: AbstractBranch
    trunk: Callable[[Array], Array]
    rank: int = eqx.field(static=True)
    whitening: AbstractCoefficientMap | None = None
    translation: Translation | None = None

    @property
    def separable(self) -> bool:
        return False

    @property
    def materialised_rank(self) -> int:
        return len(self.problem.fields) * self.rank

    @property
    def has_fixed_basis(self) -> bool:
        return False

    @property
    def discretisation(self) -> None:
        return None

    def coefficient_shape(self) -> tuple[int, ...]:
        return (len(self.problem.fields), self.rank)

    def fourier_grid(self) -> FourierGrid:
        raise no_fourier_grid(self)

    def basis_values(self, where: Location, boundary: Location, request: Request) -> Mapping[Face | None, JointValues]:
        alphas = frozenset[MultiIndex]().union(*request.values())
        highest = {name: max((order_along(a, name) for a in alphas), default=0) for name in self.problem.domain}
        evaluators = [self._constrained(index, highest) for index in range(len(self.problem.fields))]
        return joint_values(evaluators, where, boundary, request)

    def _constrained(self, index: int, highest: Mapping[str, int]) -> Evaluable:
        """The basis functions of one field, with the traces of its exact conditions removed."""

        def raw(where: Location, alpha: MultiIndex) -> Array:
            return self._trunk_derivative(where, alpha, highest)[index]

        functions: Evaluable = raw
        for projector in make_projectors(self.problem, self.problem.fields[index], self.exact):
            functions = _minus(functions, projector(functions))
        return functions

    def _trunk_derivative(
        self, where: Location, alpha: MultiIndex, highest: Mapping[str, int]
    ) -> Float[Array, "fields rank *shape"]:
        points = where.mesh() if isinstance(where, Grid) else where
        names = self.problem.domain.names
        orders = [order_along(alpha, name) for name in names]
        # A pure derivative is read off one pass to the highest order along its axis: the compiler sees the same pass
        # for all of them and keeps one.
        moving = [i for i, m in enumerate(orders) if m]
        if len(moving) == 1:
            passes = [highest[names[i]] if i == moving[0] else 0 for i in range(len(names))]
            passes = [max(p, m) for p, m in zip(passes, orders, strict=True)]
        else:
            passes = orders
        values = taylor.partials(self.trunk, jnp.stack(points.points, axis=-1), passes)[tuple(orders)]
        fields = len(self.problem.fields)
        return values.T.reshape(fields, self.rank, *where.shape)


def _minus(functions: Evaluable, removed: Evaluable) -> Evaluable:
    return lambda where, alpha: functions(where, alpha) - removed(where, alpha)
