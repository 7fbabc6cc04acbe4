r"""Principal components of solutions: what the outputs of a branch are, so that its last layer is not as large as the
basis.

Relative errors are fitted, so the components are those of $c / \|s\|$; they are not centred, and as many are kept as
leave little of functions that they were not made from.
"""

import logging

import numpy as np
from jaxtyping import Float

from .._text import percent

logger = logging.getLogger(__name__)

HELD_OUT = 5
"""Every so many functions one is kept to verify the components on."""

MOST = 2000
"""Functions that components are made from, at most: the time for that grows with the third power of their number."""

COMPLETE = 1024
"""Up to this many coefficients, all directions are kept if those of the sample are not enough."""


def principal_components(
    coefficients: Float[np.ndarray, "functions size"],
    weights: Float[np.ndarray, " functions"],
    left: float,
) -> Float[np.ndarray, "count size"]:
    """The principal components of solved functions, orthonormal, the largest first.

    **Arguments:**

    - `coefficients`: one row for each function, aligned.
    - `weights`: one over the squared norm of each solution; those that are zero do not count.
    - `left`: the relative error, as a root mean square over functions held out, that may be left by few components.
    """
    good = np.flatnonzero(weights > 0)[:MOST]
    rows = np.asarray(coefficients, np.float64)[good] * np.sqrt(weights[good])[:, None]
    size = rows.shape[1]
    held = np.arange(len(rows)) % HELD_OUT == 0
    vectors = _components(rows[~held])
    norms = np.mean(np.sum(rows[held] ** 2, axis=1))
    explained = np.cumsum(np.mean((rows[held] @ vectors.T) ** 2, axis=0))
    remaining = np.sqrt(np.maximum(norms - explained, 0.0))
    enough = np.flatnonzero(remaining <= left)
    # With as many components as there is room for nothing is left that a network could not learn.
    all_of_them = not len(enough) and size <= COMPLETE
    vectors = _components(rows)
    if all_of_them:
        vectors = np.concatenate([vectors, _complement(vectors)])
    count = size if all_of_them else min(int(enough[0]) + 1 if len(enough) else len(vectors), len(vectors))
    if not len(enough) and not all_of_them:
        logger.info(
            "%d components of solutions leave %s of others: raise train.targets.first for more of them",
            count,
            percent(float(remaining[-1])),
        )
    return vectors[:count]


def _components(rows: np.ndarray) -> np.ndarray:
    """Orthonormal directions, those along which the rows are largest first."""
    if rows.shape[1] <= len(rows):
        squares, vectors = np.linalg.eigh(rows.T @ rows)
        return vectors.T[np.argsort(-squares)]
    squares, left = np.linalg.eigh(rows @ rows.T)
    order = np.argsort(-squares)
    order = order[squares[order] > 1e-13 * squares[order[0]]]
    # Small eigenvalues of a Gram matrix belong to vectors that are not orthogonal to all digits.
    return np.linalg.qr((left[:, order] / np.sqrt(squares[order])).T.dot(rows).T)[0].T


def _complement(vectors: np.ndarray) -> np.ndarray:
    """Orthonormal directions that are orthogonal to given ones."""
    count, size = vectors.shape
    return np.linalg.qr(vectors.T, mode="complete")[0].T[count:] if count < size else np.zeros((0, size))
