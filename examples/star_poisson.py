"""Poisson's equation in a star: draw the wall, watch s. One operator for all walls, from the equation alone.

python examples/star_poisson.py           # trains for a minute or two, then draws star.png and writes star.vts
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

import seponet
from seponet import Domain, Periodic, Problem, Value, maps, plots
from seponet.functions import SpectralField


class Star(Problem):
    r"""$R \mapsto s$ where $-\Delta s = 1$ inside of the wall $r = e^{R(\theta) / 4}$, and s = 0 on it, exactly."""

    domain = maps.disk(lambda R: jnp.exp(R / 4))
    inputs = {"R": SpectralField(Domain(theta=Periodic(0, 2 * np.pi)), sigma=1600, tau=3, gamma=6)}
    conditions = [Value({"rho": 1})]

    def equation(self, s_xx, s_yy):
        return s_xx + s_yy + 1


WALLS = [
    lambda theta: 0.8 * np.cos(3 * theta),
    lambda theta: 1.2 * np.cos(2 * theta) + 0.3 * np.sin(theta),
    lambda theta: np.cos(theta) + 0.5 * np.sin(4 * theta),
]

if __name__ == "__main__":
    operator = seponet.train(Star)
    grid: dict[str, Any] = {"rho": np.linspace(0, 1, 41), "theta": np.linspace(0, 2 * np.pi, 121)}
    s = operator.predict(WALLS, error=True, **grid)  # x(rho, theta) and y(rho, theta) are among its coordinates
    print("estimated errors:", s.error.values)
    print("in the middle:", operator.predict(WALLS, points=True, x=[0.0, 0.3], y=[0.0, 0.2]).values)
    plots.draw(s).savefig("star.png")
    seponet.write_vtk(s.isel(function=0), "star.vts")
