"""Allen and Cahn's equation on the unit torus by splitting: its two halves have exact solutions."""

from collections.abc import Callable, Mapping

import numpy as np
import scipy.fft
from jaxtyping import Float


def solve_allen_cahn(
    initial: Callable[[np.ndarray, np.ndarray], np.ndarray],
    points: Mapping[str, np.ndarray],
    epsilon: float,
    resolution: int,
) -> Float[np.ndarray, "functions t x y"]:
    """The solution of s_t = epsilon Laplacian(s) + (s - s^3) / epsilon on the tensor grid of `points`.

    Half a step of reaction, one of diffusion, half a step of reaction (Strang), extrapolated to order four.

    **Arguments:**

    - `initial`: the states at t = 0, `[functions, x, y]` on a tensor grid.
    - `points`: times ascend from 0 or later.
    - `resolution`: Fourier modes along each axis, and steps up to the last time.
    """
    grid, wave = np.arange(resolution) / resolution, 2 * np.pi * np.fft.fftfreq(resolution, 1 / resolution)
    square = np.add.outer(wave**2, wave[: resolution // 2 + 1] ** 2)

    def react(s: np.ndarray, h: float) -> np.ndarray:
        return s / np.sqrt(s**2 + (1 - s**2) * np.exp(-2 * h / epsilon))

    def strang(s: np.ndarray, h: float) -> np.ndarray:
        diffused = scipy.fft.rfft2(react(s, h / 2)) * np.exp(-epsilon * h * square)
        return react(scipy.fft.irfft2(diffused, s.shape[1:]), h / 2)

    s, states = initial(grid, grid), []
    for gap in np.diff(points["t"], prepend=0.0):
        count = int(np.ceil(gap / points["t"][-1] * resolution - 1e-9)) if gap else 0
        for _ in range(count):
            h = gap / count
            s = (4 * strang(strang(s, h / 2), h / 2) - strang(s, h)) / 3
        states.append(s)
    waves = [np.exp(1j * np.outer(points[axis], wave)) / resolution for axis in ("x", "y")]
    return (waves[0] @ scipy.fft.fft2(np.stack(states, axis=1)) @ waves[1].T).real
