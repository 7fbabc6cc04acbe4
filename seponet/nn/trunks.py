"""Trunks: the factors of one axis, `(points, order) -> [orders, fields, rank, points]`.

A trunk of learned networks and one of a classical basis are interchangeable, axis by axis. Both satisfy the exact
conditions of their axis with zero data: a network by subtracting its traces (`calculus/projectors.py`), a basis by
being restricted to the functions on which the traces vanish (`bases/orthonormal.py`).
"""

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from ..bases.base import Basis, as_constant
from ..calculus import taylor
from ..calculus.projectors import Projector


class AbstractTrunk(eqx.Module):
    """The factors of one axis of a separable model, with their derivatives along it."""

    @property
    @abc.abstractmethod
    def classical_bases(self) -> tuple[Basis, ...] | None:
        """For each field the classical basis whose functions are its factors; None if they are learned or otherwise
        made. Whitening, spectral residuals and translations are for trunks with classical bases."""

    @abc.abstractmethod
    def __call__(self, points: Float[Array, " n"], order: int) -> Float[Array, "orders fields rank n"]:
        """d^m tau / dy^m for m = 0..order, with zero data in the exact conditions of the axis.

        **Arguments:**

        - `points`: coordinates along the axis.
        - `order`: the highest derivative; `orders` is `order` + 1.
        """


class NetworkTrunk(AbstractTrunk):
    r"""Learned factors: $\tau - \sum_j \ell_j(\tau)\, h_j$, the traces $\ell_j$ of the exact conditions removed.

    **Arguments:**

    - `network`: `[n, 1] -> [n, fields * rank]`; anything that `taylor.push` takes.
    - `projectors`: for each field the projector of its exact conditions on this axis, or None.
    """

    network: eqx.Module
    projectors: tuple[Projector | None, ...] = eqx.field(static=True)

    @property
    def classical_bases(self) -> None:
        return None

    def __call__(self, points: Float[Array, " n"], order: int) -> Float[Array, "orders fields rank n"]:
        n = points.shape[0]
        ends = [trace.at for p in self.projectors if p is not None for trace in p.traces]
        highest = max([order, *(p.order for p in self.projectors if p is not None)])
        all_points = jnp.concatenate([points, jnp.asarray(ends, points.dtype)])
        values = taylor.derivatives(self.network, all_points, highest)  # pyright: ignore[reportArgumentType]
        values = jnp.moveaxis(values.reshape(*values.shape[:2], len(self.projectors), -1), 1, -1)
        constrained: list[Array] = []
        used = n
        for field, projector in enumerate(self.projectors):
            factors = values[: order + 1, field, :, :n]
            if projector is not None:
                factors = factors - self._traces(values[:, field], projector, points, order, used)
                used += len(projector.traces)
            constrained.append(factors)
        return jnp.stack(constrained, axis=1)

    def _traces(
        self, values: Float[Array, "orders rank _"], projector: Projector, points: Array, order: int, start: int
    ) -> Float[Array, "_ rank n"]:
        removed = [jnp.zeros((1, 1), points.dtype)] * (order + 1)
        for m in range(order + 1):
            for j, dual in enumerate(projector.duals(points, m)):
                if dual is not None:
                    weights = jnp.asarray(projector.traces[j].weights, points.dtype)
                    trace = jnp.tensordot(weights, values[: weights.shape[0], :, start + j], 1, precision="highest")
                    removed[m] = removed[m] + trace[:, None] * dual[None]
        shape = (values.shape[1], points.shape[0])
        return jnp.stack([jnp.broadcast_to(r, shape) for r in removed])


class BasisTrunk(AbstractTrunk):
    """Fixed factors: classical functions of one variable.

    **Arguments:**

    - `bases`: one for each field, as their conditions may differ; all of the same size.
    """

    bases: tuple[Basis, ...] = eqx.field(static=True)

    @property
    def classical_bases(self) -> tuple[Basis, ...]:
        return self.bases

    def __call__(self, points: Float[Array, " n"], order: int) -> Float[Array, "orders fields rank n"]:
        if isinstance(points, Tracer):
            return jnp.stack([jnp.swapaxes(basis(points, order), 1, 2) for basis in self.bases], axis=1)
        tables = [np.swapaxes(basis.constant(points, order), 1, 2) for basis in self.bases]
        return as_constant(np.stack(tables, axis=1))
