"""Round domains: disks, annuli, sectors, and rings between two closed curves."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..domain import Domain, Interval, Periodic
from ..mapped import Mapped
from .curves import Length, closed_curve, combine, length

CIRCLE = 2 * np.pi

Axis = Interval | tuple[float, float]


def disk(radius: Length = 1.0, *, centre: tuple[float, float] = (0.0, 0.0), **axes: Axis) -> Mapped:
    r"""A disk, or a star: $x = x_0 + \rho R(\theta) (\cos\theta, \sin\theta)$, $0 < \rho < 1$.

    The wall is `{"rho": 1}`; the middle, rho = 0, is a pole and takes no condition.

    **Arguments:**

    - `radius`: a number, the name of an input that is a function of theta, or a function of theta and of inputs:
        `lambda R: 1 + 0.3 * R`.
    - `centre`: the pole.
    - `axes`: further axes, which stand first and are kept: `t=(0, 1)`.
    """
    r = length(radius, "the radius of a disk")
    return Mapped(
        Domain(**axes, rho=(0, 1), theta=Periodic(0, CIRCLE)),
        pole={"rho": 0},
        x=combine(("rho", "theta"), (r,), lambda rho, theta, r: centre[0] + rho * r * jnp.cos(theta)),
        y=combine(("rho", "theta"), (r,), lambda rho, theta, r: centre[1] + rho * r * jnp.sin(theta)),
    )


def annulus(inner: float, outer: float, *, centre: tuple[float, float] = (0.0, 0.0), **axes: Axis) -> Mapped:
    r"""Between two circles: $r = a (b / a)^\rho$, from the inner one at rho = 0 to the outer one at rho = 1.

    In the logarithm of the radius the map is conformal, so that s_xx + s_yy is one contraction, as on a box.

    **Arguments:**

    - `inner`, `outer`: the radii.
    - `centre`: of both circles.
    - `axes`: further axes, which stand first and are kept: `t=(0, 1)`.
    """
    return _polar(inner, outer, Periodic(0, CIRCLE), centre, axes, "an annulus")


def sector(
    inner: float,
    outer: float,
    angle: float | tuple[float, float],
    *,
    centre: tuple[float, float] = (0.0, 0.0),
    **axes: Axis,
) -> Mapped:
    """The part of an annulus between two angles; of a disk if the inner radius is 0, where the tip is a pole.

    Faces are `{"rho": 0}` (not if it is a pole), `{"rho": 1}`, and the ends of theta.

    **Arguments:**

    - `inner`, `outer`: the radii.
    - `angle`: the two angles, at most a circle apart; a number is the second, and the first 0.
    - `centre`: of the circles.
    - `axes`: further axes, which stand first and are kept.
    """
    angles = np.ravel(np.asarray(angle))
    if angles.size > 2 or angles.dtype.kind not in "iuf":
        raise ValueError(f"a sector lies between two angles, (0, 1.5) for instance, or 0 and a number; got {angle!r}")
    lower, upper = map(float, angles if angles.size == 2 else (0.0, angles[0]))
    if not 0 < upper - lower <= CIRCLE + 1e-9:
        raise ValueError(f"a sector lies between two angles that are at most 2 pi apart; got {angle!r}")
    if inner == 0:
        return Mapped(
            Domain(**axes, rho=(0, 1), theta=(lower, upper)),
            pole={"rho": 0},
            x=lambda rho, theta: centre[0] + outer * rho * jnp.cos(theta),
            y=lambda rho, theta: centre[1] + outer * rho * jnp.sin(theta),
        )
    return _polar(inner, outer, Interval(lower, upper), centre, axes, "a sector")


def ring(inner: Any, outer: Any, *, centre: tuple[float, float] = (0.0, 0.0), **axes: Axis) -> Mapped:
    r"""Between two closed curves: $x = x_0 + (1 - \rho)\, C_{in}(\theta) + \rho\, C_{out}(\theta)$.

    The walls are `{"rho": 0}` and `{"rho": 1}`.

    **Arguments:**

    - `inner`, `outer`: each a radius (a number, the name of an input on theta, a function `lambda R: 0.5 + 0.1 * R`), a
        function of theta (and of inputs) that returns (x, y), or points on the curve, `[n, 2]`, counterclockwise and
        equally spaced in theta.
    - `centre`: the origin of both.
    - `axes`: further axes, which stand first and are kept.
    """
    first = closed_curve(inner, "theta", "the inner curve of a ring", CIRCLE)
    second = closed_curve(outer, "theta", "the outer curve of a ring", CIRCLE)
    x, y = (
        combine(
            ("rho",),
            (first[i], second[i]),
            lambda rho, a, b, i=i: centre[i] + (1 - rho) * a + rho * b,
        )
        for i in (0, 1)
    )
    return Mapped(Domain(**axes, rho=(0, 1), theta=Periodic(0, CIRCLE)), x=x, y=y)


def _polar(
    inner: float, outer: float, angle: Interval, centre: tuple[float, float], axes: dict[str, Any], what: str
) -> Mapped:
    if not all(isinstance(r, (int, float, np.number)) for r in (inner, outer)):
        raise ValueError(
            f"the radii of {what} are numbers (walls that are inputs: maps.ring); got {inner!r}, {outer!r}"
        )
    if not 0 < inner < outer:
        raise ValueError(f"{what} needs radii with 0 < inner < outer; got {inner} and {outer}")
    ratio = float(np.log(outer / inner))
    return Mapped(
        Domain(**axes, rho=(0, 1), theta=angle),
        x=lambda rho, theta: centre[0] + inner * jnp.exp(ratio * rho) * jnp.cos(theta),
        y=lambda rho, theta: centre[1] + inner * jnp.exp(ratio * rho) * jnp.sin(theta),
    )
