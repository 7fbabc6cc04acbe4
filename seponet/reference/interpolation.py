"""Interpolation from a solver's grid to any points, as a matrix `[points, nodes]` per axis."""

import numpy as np
from jaxtyping import Float
from scipy.interpolate import make_interp_spline


def spline_matrix(
    nodes: Float[np.ndarray, " nodes"], points: Float[np.ndarray, " points"]
) -> Float[np.ndarray, "points nodes"]:
    """The quintic spline through `nodes`: sixth order, far below the error of a second-order scheme."""
    return make_interp_spline(nodes, np.eye(nodes.shape[0]), k=5)(points)


def fourier_matrix(
    nodes: int, points: Float[np.ndarray, " points"], period: float
) -> Float[np.ndarray, "points {nodes}"]:
    """The trigonometric polynomial through `nodes` equispaced values on [0, period)."""
    modes = np.arange(nodes // 2 + 1)
    # Every mode but the mean stands for a pair +-k; the Nyquist mode of an even grid is paired with itself.
    weights = np.where((modes == 0) | (2 * modes == nodes), 1.0, 2.0)
    exponentials = weights * np.exp(2j * np.pi / period * points[:, None] * modes)
    return (exponentials @ np.fft.rfft(np.eye(nodes), axis=-1).T).real / nodes
