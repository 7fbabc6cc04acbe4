"""Domains between curves that stand opposite: channels, and quadrilaterals with four curved sides."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .._precision import double_precision
from ..domain import Domain, Interval
from ..mapped import Mapped
from .curves import Curve, Length, combine, length, open_curve

Axis = Interval | tuple[float, float]


def channel(height: Length, *, floor: Length = 0.0, x: Axis = (0.0, 1.0), **axes: Axis) -> Mapped:
    """Between a floor and a wall: floor(x) < y < height(x). x stays an axis; the walls are `{"q": 0}` and `{"q": 1}`.

    **Arguments:**

    - `height`, `floor`: each a number, the name of an input that is a function of x, or a function of x and of inputs:
        `lambda x, h: 1 + 0.2 * h`.
    - `x`: the axis along the channel; `Periodic(0, 1)` for one that repeats.
    - `axes`: further axes, which stand first and are kept: `t=(0, 1)`.
    """
    top, bottom = length(height, "the height of a channel"), length(floor, "the floor of a channel")
    return Mapped(
        Domain(**axes, x=x, q=(0, 1)),
        y=combine(("q",), (bottom, top), lambda q, low, high: low + q * (high - low)),
        keep=(*axes, "x"),
    )


def transfinite(bottom: Curve, top: Curve, left: Curve, right: Curve, **axes: Axis) -> Mapped:
    """The domain inside of four curves that meet at corners, by transfinite interpolation (Gordon and Hall).

    The sides are `{"q": 0}`, `{"q": 1}`, `{"p": 0}` and `{"p": 1}`.

    **Arguments:**

    - `bottom`, `top`: from left to right, and `left`, `right`, from bottom to top: each a function of a parameter from
        0 to 1 that returns (x, y), in `jax.numpy`, or points on the curve, `[n, 2]`, from end to end. Points are joined
        by a quintic spline; functions converge faster.
    - `axes`: further axes, which stand first and are kept.
    """
    curves = {
        name: open_curve(curve, f"the {name} side")
        for name, curve in (("bottom", bottom), ("top", top), ("left", left), ("right", right))
    }
    corners = _corners(curves)

    def coordinate(i: int) -> Any:
        def position(p: Any, q: Any) -> Any:
            sides = {n: c(p if n in ("bottom", "top") else q)[i] for n, c in curves.items()}
            blended = (1 - q) * sides["bottom"] + q * sides["top"] + (1 - p) * sides["left"] + p * sides["right"]
            low = (1 - p) * corners["bottom", "left"][i] + p * corners["bottom", "right"][i]
            high = (1 - p) * corners["top", "left"][i] + p * corners["top", "right"][i]
            return blended - (1 - q) * low - q * high

        return position

    return Mapped(Domain(**axes, p=(0, 1), q=(0, 1)), x=coordinate(0), y=coordinate(1))


def _corners(curves: dict[str, Any]) -> dict[tuple[str, str], tuple[float, float]]:
    """The corners, where two sides must end at the same point."""
    ends: dict[tuple[str, float], np.ndarray] = {}
    with double_precision():  # corners are numbers of the map in either precision
        for name, curve in curves.items():
            for at in (0.0, 1.0):
                ends[name, at] = np.array([float(value) for value in curve(jnp.asarray(at))])
    size = float(np.max(np.ptp(np.stack(list(ends.values())), axis=0)))
    corners: dict[tuple[str, str], tuple[float, float]] = {}
    for across, q in (("bottom", 0.0), ("top", 1.0)):
        for up, p in (("left", 0.0), ("right", 1.0)):
            first, second = ends[across, p], ends[up, q]
            if np.max(np.abs(first - second)) > 1e-5 * size:
                raise ValueError(
                    f"the {across} side ends at ({first[0]:.4g}, {first[1]:.4g}) and the {up} side at "
                    f"({second[0]:.4g}, {second[1]:.4g}), where they should meet; bottom and top run from left to "
                    "right, left and right from bottom to top"
                )
            corners[across, up] = (float(first[0]), float(first[1]))
    return corners
