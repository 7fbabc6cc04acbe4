r"""The residual of a model on classical basis functions, integrated against test functions (`discretise/`).

$$\sum_k \langle \psi_k, R \rangle^2$$

is the mean square of that part of a residual which as many test functions as there are coefficients see: it can vanish,
and does at the solution of the discretisation, whereas the mean square over points is smallest where the basis pays
for what it can't represent. Conditions that are soft are tested on their faces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..calculus.collocation import Collocation, Nodes
from ..discretise.discretisation import Discretisation
from ..discretise.tested import TestedResiduals, piece_volume
from ..locations import Evaluable
from ..nn.model import OperatorNetwork
from .pointwise import Losses


@dataclass(frozen=True)
class TestedResidual:
    """The residuals of a SepONet on classical bases, integrated against test functions."""

    __test__ = False

    def check(self, model: OperatorNetwork, methods: Sequence[str]) -> None:
        """A `ValueError` if a model has no tested residual, on points drawn by the sampling `methods` of its axes."""
        discretisation_of(model)
        if set(methods) != {"gauss"}:
            raise ValueError(
                'train.loss.residual = "tested" needs quadrature points: train.sampling.method = "gauss"; got '
                f"{', '.join(methods)}"
            )

    def table(
        self,
        model: OperatorNetwork,
        inputs: Mapping[str, Evaluable],
        collocation: Collocation,
        coefficients: Float[Array, "functions fields *_"] | None,
        functions: int,
    ) -> Float[Array, "terms functions"]:
        """The sum of squared rows of each term for each function, relative to the volume: `[terms, functions]`.

        **Arguments:**

        - `collocation`: a grid of quadrature nodes.
        - `coefficients`: those of the basis functions; None takes the lift alone.
        - `functions`: the number of functions; a problem without inputs has one, which no input tells.
        """
        discretisation = discretisation_of(model)
        tested = TestedResiduals(discretisation, nodes_of(model, collocation), inputs, functions)
        tables = [
            jnp.sum(tested.of_term(i, coefficients) ** 2, axis=1) / piece_volume(piece, model.problem.domain)
            for i, piece in enumerate(tested.pieces)
        ]
        return jnp.stack(tables)

    def loss(
        self,
        model: OperatorNetwork,
        inputs: Mapping[str, Evaluable],
        collocation: Collocation,
        weights: Float[Array, "terms functions"],
        coefficients: Float[Array, "functions fields *_"],
    ) -> Losses:
        """The weighted sum of the squares, as `pointwise.physics_loss` gives it; here the table has a gradient."""
        table = self.table(model, inputs, collocation, coefficients, coefficients.shape[0])
        return Losses(jnp.sum(weights * table), table)


def discretisation_of(model: OperatorNetwork) -> Discretisation:
    """The discretisation whose trial functions are a model's basis functions, or a `ValueError` if there is none."""
    discretisation = model.discretisation
    if discretisation is None:
        raise ValueError(
            "residuals are tested on classical trial functions with one coefficient each: model.trunk = "
            '"classical" and model.decoder = "tucker"; for other models set train.loss.residual = "pointwise"'
        )
    return discretisation


def nodes_of(model: OperatorNetwork, collocation: Collocation) -> Nodes:
    """The number of nodes along each axis of a grid."""
    return tuple(zip(model.problem.domain.names, collocation.where.shape, strict=True))
