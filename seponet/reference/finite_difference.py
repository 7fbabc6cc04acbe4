r"""One-dimensional diffusion-reaction systems $s_t = D s_{xx} + f(s, u(x))$ by implicit finite differences.

Central differences in x and TR-BDF2 in t: both second order, one-step and L-stable, so that data which contradict the
ends (s = 0 there, but f(0, u) is not) leave no ringing. The steps of the first interval are graded as j^2 towards
t = 0, where such data make a layer of width sqrt(D t). Richardson extrapolation over two grids then removes the
second-order terms of both errors.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import get_lapack_funcs

from .._precision import double_precision
from .arguments import check_times, check_within, sample
from .interpolation import spline_matrix

GAMMA = 2 - np.sqrt(2)
"""The intermediate point of TR-BDF2, as a part of the step, with which both stages have the same matrix."""

State = Float[np.ndarray, "species functions nodes"]
Inner = Float[np.ndarray, "species functions nodes-2"]


def solve_diffusion_reaction(
    reaction: Callable,
    diffusivity: float | Sequence[float],
    times: Float[np.ndarray, " t"],
    points: Float[np.ndarray, " x"],
    *,
    u: Callable | None = None,
    initial: Callable | None = None,
    interval: tuple[float, float] = (0.0, 1.0),
    resolution: int = 256,
    extrapolate: bool = True,
) -> Float[np.ndarray, "*species functions t x"]:
    """Solve s_t = D s_xx + reaction(s, u(x)) with both ends held at their initial values.

    **Arguments:**

    - `reaction`: `(s, u) -> ds/dt` elementwise in x and over functions; s is `[species, functions, n]`.
    - `diffusivity`: a number, or one per species; in the latter case the species lead the result.
    - `times`, `points`: where the solution is wanted.
    - `u`: `x [n] -> [..., functions, n]`, evaluated once per grid and handed to `reaction`; None if it needs nothing.
    - `initial`: `x [n] -> [functions, n]` (`[species, functions, n]` for several species); zero if None.
    - `resolution`: cells in x, and at least as many steps in t.
    - `extrapolate`: combine this grid with the one of half the resolution; without it the order is two.
    """
    check_times(times)
    check_within(points, interval)
    if resolution < 12 or resolution % 2:
        raise ValueError(f"`resolution` must be an even number of at least 12 cells; got {resolution}")
    diffusivities = np.atleast_1d(np.asarray(diffusivity, dtype=np.float64))
    steps = np.maximum(1, np.ceil(np.diff(times, prepend=0.0) / times[-1] * resolution / 2 - 1e-9)).astype(int)

    def solve(cells: int) -> Float[np.ndarray, "species functions t x"]:
        nodes = np.linspace(*interval, cells + 1)
        s, reaction_at_nodes = _prepare(reaction, diffusivities.shape[0], nodes, u, initial)
        march = _march(
            s, reaction_at_nodes, diffusivities, nodes[1] - nodes[0], times, steps * (2 * cells // resolution)
        )
        return np.stack(list(march), axis=2) @ spline_matrix(nodes, points).T

    s = solve(resolution)
    if extrapolate:
        s = s + (s - solve(resolution // 2)) / 3
    return s[0] if np.ndim(diffusivity) == 0 else s


def _prepare(
    reaction: Callable, species: int, nodes: Float[np.ndarray, " nodes"], u: Callable | None, initial: Callable | None
) -> tuple[State, Callable[[Inner], Inner]]:
    """The initial state on all nodes, and the reaction on the inner ones."""
    inner = None if u is None else sample(u, nodes[1:-1])

    def react(s: Float[np.ndarray, "species _ n"]) -> Float[np.ndarray, "*species_functions n"]:
        with double_precision():
            return np.asarray(reaction(s, inner), dtype=np.float64)

    s = np.zeros((species, 1, nodes.shape[0])) if initial is None else sample(initial, nodes)
    s = np.broadcast_to(s, (species, *s.shape[-2:]))
    rate = react(s[..., 1:-1])
    if rate.ndim != 3 or rate.shape[0] != species:
        raise ValueError(f"`reaction` must return the shape of s, ({species}, functions, n); got {rate.shape}")
    return np.broadcast_to(s, (species, rate.shape[1], nodes.shape[0])).copy(), react


def _march(
    s: State,
    reaction: Callable[[Inner], Inner],
    diffusivity: Float[np.ndarray, " species"],
    h: float,
    times: Float[np.ndarray, " t"],
    steps: Int[np.ndarray, " t"],
) -> Iterator[State]:
    """Yield the state at each of the times, after `steps[i]` steps of TR-BDF2 from the one before."""
    stencil = diffusivity[:, None, None] / h**2

    def rate(s: State) -> Inner:
        return stencil * (s[..., 2:] - 2 * s[..., 1:-1] + s[..., :-2]) + reaction(s[..., 1:-1])

    now = 0.0
    for time, count in zip(times, steps, strict=True):
        fractions = np.linspace(0, 1, count + 1) ** (2 if now == 0.0 else 1)
        for dt in np.diff(now + (time - now) * fractions) if time > now else ():
            tau = GAMMA / 2 * dt
            solve_linear = _factorise(s, reaction, stencil[:, 0, 0], tau)
            middle = _newton(s, s[..., 1:-1] + tau * rate(s), rate, solve_linear, tau)
            right_side = (middle[..., 1:-1] - (1 - GAMMA) ** 2 * s[..., 1:-1]) / (GAMMA * (2 - GAMMA))
            s = _newton(middle, right_side, rate, solve_linear, tau)
        now = time
        yield s


def _newton(s: State, known: Inner, rate: Callable[[State], Inner], solve_linear: Callable, tau: float) -> State:
    """Solve s - tau rate(s) = known for the inner nodes, with the Jacobian of the beginning of the step."""
    s = s.copy()
    for _ in range(30):
        correction = solve_linear(known + tau * rate(s) - s[..., 1:-1])
        s[..., 1:-1] += correction
        # What is left after this correction is smaller by another factor of order tau.
        if np.abs(correction).max() <= 1e-10 * max(1e-3, np.abs(s).max()):
            return s
    raise ValueError(
        "Newton's method did not converge in 30 iterations; increase `resolution`, which shortens the steps"
    )


def _factorise(
    s: State, reaction: Callable[[Inner], Inner], stencil: Float[np.ndarray, " species"], tau: float
) -> Callable[[Inner], Inner]:
    """The solver of (1 - tau (D d_xx + f'(s))) v = w for all functions at once.

    With the unknowns ordered by function, node and species this is one banded matrix with as many sub- and
    superdiagonals as species; entries that would couple two functions are zero.
    """
    m, functions, n = s[..., 1:-1].shape
    band = np.zeros((3 * m + 1, functions, n, m))
    band[m, :, 1:, :] = -tau * stencil
    band[3 * m, :, :-1, :] = -tau * stencil
    band[2 * m] = 1 + 2 * tau * stencil
    for j in range(m):
        # Central differences: exact for quadratic reactions, and a slightly wrong Jacobian costs no accuracy.
        step = 1e-5 * np.eye(m)[j][:, None, None]
        column = (reaction(s[..., 1:-1] + step) - reaction(s[..., 1:-1] - step)) / 2e-5
        for i in range(m):
            band[2 * m + i - j, :, :, j] -= tau * column[i]
    invert = _tridiagonal(band.reshape(4, -1)) if m == 1 else _banded(band.reshape(3 * m + 1, -1), m)

    def solve_linear(w: Float[np.ndarray, "species functions n"]) -> Float[np.ndarray, "species functions n"]:
        return invert(w.transpose(1, 2, 0).reshape(-1)).reshape(functions, n, m).transpose(2, 0, 1)

    return solve_linear


def _banded(band: Float[np.ndarray, "diagonals n"], width: int) -> Callable[[np.ndarray], np.ndarray]:
    factorise, solve = get_lapack_funcs(("gbtrf", "gbtrs"), dtype=np.float64)
    factors, pivots, _ = factorise(band, width, width)
    return lambda b: solve(factors, width, width, b, pivots)[0]


def _tridiagonal(band: Float[np.ndarray, "4 n"]) -> Callable[[np.ndarray], np.ndarray]:
    """The case of one species; several times faster than the banded solver."""
    factorise, solve = get_lapack_funcs(("gttrf", "gttrs"), dtype=np.float64)
    *factors, _ = factorise(band[3, :-1], band[2], band[1, 1:])
    return lambda b: solve(*factors, b)[0]
