"""The preconditioner of a discretisation: the inverse of the averaged Jacobian, or of its blocks."""

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..calculus.collocation import Nodes
from ..derivatives import order_along
from ..locations import Evaluable
from .discretisation import Discretisation
from .test_functions import is_balanced
from .tested import Slopes, TestedResiduals, averaged_jacobian

DENSE, LARGEST_BLOCK = 3000, 5000
"""Up to `DENSE` coefficients the whole matrix is inverted (two seconds on two cores). Beyond, axes are taken as
diagonal where that can be done; where it can't, a block may have `LARGEST_BLOCK`."""


Inverse = Callable[[Float[Array, "functions rows"]], Float[Array, "functions fields *_"]]
"""From rows to coefficients."""


class AbstractPreconditioner(eqx.Module):
    """An approximate inverse of the Jacobian of tested residuals."""

    @abc.abstractmethod
    def at(self, tested: TestedResiduals, slopes: Sequence[Slopes]) -> Inverse:
        """The approximate inverse for functions whose terms have these slopes."""

    def held(self, discretisation: Discretisation) -> int:
        """How many real numbers it keeps for each function, about."""
        return 0


class Preconditioner(AbstractPreconditioner):
    """P^-1, with P = E_u of the Jacobian, all of it or those of its blocks in which it is dominant.

    P^-1 G(c) is the error of c, to first order and for the average function: the norm in which residuals are judged.

    **Arguments:**

    - `inverses`: of every block.
    - `diagonal`: the axes along which functions of different numbers are not coupled; blocks are along these.
    """

    inverses: Float[Array, "blocks columns rows"]
    diagonal: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, tested: TestedResiduals, rows: Float[Array, "functions rows"]) -> Array:
        """P^-1 times rows: coefficients `[functions, fields, *_]`."""
        blocks = jnp.einsum("kij,fkj->fki", self.inverses, tested.gather(rows, self.diagonal), precision="highest")
        return tested.scatter(blocks, self.diagonal)

    def at(self, tested: TestedResiduals, slopes: Sequence[Slopes]) -> Inverse:
        return partial(self, tested)


def make_preconditioner(
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Evaluable],
    coefficients: Float[Array, "functions fields *_"],
) -> Preconditioner:
    """The preconditioner averaged over functions at given coefficients, in float64.

    Up to `DENSE` coefficients it is the whole matrix. Beyond, axes whose classical functions are eigenfunctions of even
    derivatives, or nearly so, are taken as diagonal.
    """
    diagonal = _diagonal(discretisation)
    matrices = np.asarray(averaged_jacobian(discretisation, nodes, inputs, coefficients, diagonal))
    return Preconditioner(jnp.asarray(_inverse(matrices)), diagonal)


def is_solvable(discretisation: Discretisation) -> bool:
    """Whether the blocks of the preconditioner are small enough to be inverted."""
    return _block_size(discretisation, _diagonal(discretisation)) <= LARGEST_BLOCK


def _inverse(matrices: Float[np.ndarray, "blocks rows columns"]) -> np.ndarray:
    # Rows and columns to about one first: high functions have derivatives that are larger by orders of magnitude.
    with np.errstate(all="ignore"):
        rows = np.maximum(np.abs(matrices).max(axis=2, keepdims=True), 1e-300)
        scaled = matrices / rows
        columns = np.maximum(np.abs(scaled).max(axis=1, keepdims=True), 1e-300)
        try:
            inverse = np.linalg.inv(scaled / columns)
        except np.linalg.LinAlgError:
            inverse = np.linalg.pinv(scaled / columns, rcond=1e-12)
        return inverse / np.swapaxes(columns, 1, 2) / np.swapaxes(rows, 1, 2)


def _block_size(discretisation: Discretisation, diagonal: tuple[int, ...]) -> int:
    inner = [r for n, r in enumerate(discretisation.shape) if n not in diagonal]
    return len(discretisation.problem.fields) * math.prod(inner)


def _diagonal(discretisation: Discretisation) -> tuple[int, ...]:
    """Axes whose test functions are the trial functions, so that their numbers correspond; none if the whole matrix is
    small."""
    if discretisation.size <= DENSE:
        return ()
    problem = discretisation.problem
    soft = {term.face.axis for term in problem.terms(discretisation.exact) if term.face is not None}
    candidates: list[int] = []
    for n, (name, axis) in enumerate(problem.domain.axes):
        symbols = [s for term in problem.equations for s in term.expression.fields]
        odd = any(order_along(s.alpha, name) % 2 for s in symbols)
        same = len({tuple(basis.traces) for basis in discretisation.bases[n]}) == 1  # pyright: ignore[reportAttributeAccessIssue]
        balanced = all(is_balanced(problem, field, name) for field in problem.fields)
        if name not in soft and same and balanced and not (axis.periodic and odd):
            candidates.append(n)
    return tuple(candidates)
