r"""The best affine map from features to solutions, by regression on solved functions.

$$\min_{M, b} \sum_i w_i |y_i - x_i M - b|^2 + \lambda |M|^2$$

with a ridge $\lambda$ that is best on functions held out. A linear equation is learned by it; of others it leaves the
network what is not linear.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

HELD_OUT = 5
"""Every so many functions one is held out."""

RIDGES = 10.0 ** np.arange(-10, 3)
"""What is tried, relative to the mean square of the features."""


@dataclass(frozen=True, eq=False)
class LinearPart:
    """An affine map, and what it leaves.

    - `matrix`, `offset`: y = x `matrix` + `offset`.
    - `left`: the weighted root mean square of what it leaves of each component of functions held out.
    - `error`: the same of all components together.
    """

    matrix: Float[np.ndarray, "features n"]
    offset: Float[np.ndarray, " n"]
    left: Float[np.ndarray, " n"]
    error: float


def fit_linear(
    features: Float[np.ndarray, "functions features"],
    targets: Float[np.ndarray, "functions n"],
    weights: Float[np.ndarray, " functions"],
) -> LinearPart:
    """The affine map for solved functions; those of weight zero do not count.

    **Returns:** a map of zeros where nothing better was found.
    """
    good = weights > 0
    x, y, w = (np.asarray(a, np.float64)[good] for a in (features, targets, weights))
    held = np.arange(len(x)) % HELD_OUT == 0
    nothing = _left(y[held], w[held])
    best = LinearPart(np.zeros((x.shape[1], y.shape[1])), np.zeros(y.shape[1]), nothing, _norm(nothing))
    solve = _Regression(x[~held], y[~held], w[~held])
    chosen = None
    for ridge in RIDGES:
        matrix, offset = solve(ridge)
        left = _left(y[held] - x[held] @ matrix - offset, w[held])
        if _norm(left) < best.error:
            best, chosen = LinearPart(matrix, offset, left, _norm(left)), ridge
    if chosen is None:
        return best
    # The map itself is that of all functions.
    return LinearPart(*_Regression(x, y, w)(chosen), best.left, best.error)


class _Regression:
    """Weighted least squares for many ridges: one factorisation serves all."""

    def __init__(self, x: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        self.x_mean, self.y_mean = (np.average(a, axis=0, weights=w) for a in (x, y))
        root = np.sqrt(w / np.mean(w))[:, None]
        left, self.singular, self.right = np.linalg.svd(root * (x - self.x_mean), full_matrices=False)
        self.projected = left.T @ (root * (y - self.y_mean))
        self.unit = float(np.mean(self.singular**2))

    def __call__(self, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        factors = self.singular / (self.singular**2 + ridge * self.unit + 1e-300)
        matrix = self.right.T @ (factors[:, None] * self.projected)
        return matrix, self.y_mean - self.x_mean @ matrix


def _left(y: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(w[:, None] * y**2, axis=0))


def _norm(left: np.ndarray) -> float:
    return float(np.sqrt(np.sum(left**2)))
