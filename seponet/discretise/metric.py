r"""The physical L2 norm of what coefficients stand for, on a mapped domain, as a sum of squares.

$$\int \phi^2\, |\det J|\, d\xi \;\approx\; V \int \phi^2 \prod_a w_a(\xi_a)\, d\xi \;=\; V\, |L^T c|^2,$$

with the mean V of |det J| over the box of each shape, and the means $w_a$ of |det J| / V over shapes and over all axes
but one. For a map of products (disks, annuli, balls, parallelograms) this is exact; of others, and of shapes that are
inputs, it is the norm on average. A product keeps all of it one-dimensional: $L$ is one small matrix for each axis.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bases.quadrature import quadrature
from ..calculus.collocation import Nodes, make_collocation
from ..calculus.evaluate import volume_element
from ..functions import Functions
from .discretisation import Discretisation, apply_along

Rows = Float[np.ndarray, "rows size"]


def mean_volume(discretisation: Discretisation, inputs: Any, nodes: Nodes) -> Float[Array, "#functions"]:
    """The mean V of |det J| over the box for each function; one on a box. May be traced."""
    collocation = make_collocation(discretisation, nodes)
    element = volume_element(discretisation.problem, inputs, collocation.where)
    return jnp.ones(1) if element is None else _mean(element, collocation.weights)


@dataclass(frozen=True, eq=False)
class Metric:
    """A norm of coefficients.

    - `factors`: for each axis and field the lower triangular L; the Gram matrix of the trial functions is L L^T.
    - `shape`: that of one function's coefficients.
    """

    factors: Sequence[Sequence[np.ndarray]]
    shape: tuple[int, ...]

    @classmethod
    def of(
        cls,
        discretisation: Discretisation,
        inputs: Mapping[str, Functions],
        nodes: Nodes,
        alike: Collection[str] = (),
    ) -> "Metric | None":
        """The norm for sampled shapes; None on a box, where bases are orthonormal.

        **Arguments:**

        - `alike`: axes along which all places count alike, because the model commutes with translations along them.
        """
        problem = discretisation.problem
        collocation = make_collocation(discretisation, nodes)
        element = volume_element(problem, inputs, collocation.where)
        if element is None:
            return None
        relative = element / _mean(element, collocation.weights).reshape(-1, *(1,) * (element.ndim - 1))
        factors: list[list[np.ndarray]] = []
        for n, (name, bases) in enumerate(zip(problem.domain, discretisation.bases, strict=True)):
            others = [None if m == n else w for m, w in enumerate(collocation.weights)]
            along = np.ravel(np.mean(np.asarray(_mean(relative, others, keep=True), np.float64), axis=0))
            points, weights = quadrature(problem.domain.axis(name), dict(nodes)[name])
            if name in alike or len(along) == 1:
                along = np.ones(1)
            tables = [basis.table(points)[0] for basis in bases]
            factors.append([np.linalg.cholesky(t.T @ ((weights * along)[:, None] * t)) for t in tables])
        return cls(factors, discretisation.coefficient_shape())

    def flatten(self, coefficients: Rows) -> Rows:
        """L^T c: rows whose sums of squares are the squared norms."""
        return self._apply(self.factors, coefficients, back=True)

    def restore(self, rows: Rows) -> Rows:
        """The coefficients c = L^-T r."""
        return self._apply([[np.linalg.inv(f) for f in of_axis] for of_axis in self.factors], rows, back=True)

    def dual(self, rows: Rows) -> Rows:
        """L r: rows whose products with coefficients are those of r with L^T c."""
        return self._apply(self.factors, rows, back=False)

    def _apply(self, matrices: Sequence[Sequence[np.ndarray]], rows: Rows, *, back: bool) -> Rows:
        rows = np.asarray(rows, np.float64)
        return apply_along(matrices, rows.reshape(len(rows), *self.shape), back=back).reshape(rows.shape)


def _mean(values: Any, weights: Sequence[Any], *, keep: bool = False) -> Any:
    """The mean over the axes that have weights, of values whose axes may have one place for all."""
    for n, w in enumerate(weights, start=1):
        if w is not None:
            w = w if values.shape[n] == len(w) else jnp.ones(1)
            w = jnp.expand_dims(w, [axis for axis in range(values.ndim) if axis != n])
            values = jnp.sum(values * w, axis=n, keepdims=True)
    return values if keep else values.reshape(values.shape[0])
