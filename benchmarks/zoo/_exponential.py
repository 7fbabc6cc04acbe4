r"""Semilinear equations $\dot c = \Lambda c + N(c)$ with a diagonal $\Lambda$, by exponential time differencing.

A spectral method brings many equations to this form: Fourier on periodic axes, sines for Dirichlet and cosines for
Neumann walls. ETDRK4 (Cox and Matthews 2002) treats the stiff diagonal exactly and N with order four. Its coefficients
are means over a circle in the complex plane (Kassam and Trefethen 2005), which is free of cancellation.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Inexact

from seponet.reference.arguments import check_times

NODES = 32
"""Points on the circle of radius one: the mean of an entire function of this size is then right to rounding."""

Rate = Callable[[np.ndarray], np.ndarray]


def solve_semilinear(
    diagonal: Inexact[np.ndarray, "*modes"],
    nonlinear: Rate,
    initial: Inexact[np.ndarray, "*batch"],
    times: Float[np.ndarray, " t"],
    *,
    steps: int,
) -> Inexact[np.ndarray, "t *batch"]:
    r"""The states at `times` of $\dot c = \Lambda c + N(c)$, $c(0) =$ `initial`.

    **Arguments:**

    - `diagonal`: $\Lambda$, real or complex; its shape is that of the last axes of a state.
    - `nonlinear`: N, a function of a whole state, batch axes included.
    - `initial`: the state at t = 0.
    - `times`: where the solution is wanted.
    - `steps`: from 0 to the last time, about: they are equal between one time and the next.
    """
    check_times(times)
    states = np.empty((len(times), *initial.shape), initial.dtype)
    state, tables = initial, dict[float, tuple[np.ndarray, ...]]()
    for i, gap in enumerate(np.diff(times, prepend=0.0)):
        count = int(np.ceil(gap / times[-1] * steps - 1e-9)) if gap else 0
        for _ in range(count):
            # Gaps of equally spaced times differ by rounding only, and share a table.
            h = float(np.round(gap / count, 14))
            if h not in tables:
                tables[h] = _coefficients(h, diagonal)
            state = _step(state, nonlinear, *tables[h])
        states[i] = state
    return states


def _coefficients(h: float, diagonal: np.ndarray) -> tuple[np.ndarray, ...]:
    circle = np.exp(2j * np.pi * (np.arange(NODES) + 0.5) / NODES)
    z = h * diagonal[..., None] + circle

    def mean(values: np.ndarray) -> np.ndarray:
        average = values.mean(-1)
        return h * (average if np.iscomplexobj(diagonal) else average.real)

    e = np.exp(z)
    return (
        np.exp(h * diagonal),
        np.exp(h * diagonal / 2),
        mean((np.exp(z / 2) - 1) / z),
        mean((-4 - z + e * (4 - 3 * z + z**2)) / z**3),
        mean((2 + z + e * (z - 2)) / z**3),
        mean((-4 - 3 * z - z**2 + e * (4 - z)) / z**3),
    )


def _step(
    state: np.ndarray,
    nonlinear: Rate,
    whole: np.ndarray,
    half: np.ndarray,
    inner: np.ndarray,
    first: np.ndarray,
    middle: np.ndarray,
    last: np.ndarray,
) -> np.ndarray:
    n = nonlinear(state)
    a = half * state + inner * n
    n_a = nonlinear(a)
    n_b = nonlinear(half * state + inner * n_a)
    n_c = nonlinear(half * a + inner * (2 * n_b - n))
    return whole * state + first * n + 2 * middle * (n_a + n_b) + last * n_c
