"""Heat in a ring whose inner wall is an input: one operator for all walls and times.

python examples/annulus_heat.py           # trains for some minutes, then draws ring.png and writes ring.pvd
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import seponet
from seponet import Domain, Normal, Periodic, Problem, Value, maps, plots
from seponet.functions import SpectralField


class Ring(Problem):
    r"""$R \mapsto s$ where $s_t = \kappa \Delta s$ between a hot wall $r = e^{R/5} / 2$ and an insulated circle.

    Grid lines are radial and meet the circle at right angles, so that both conditions hold exactly.
    """

    conductivity: float = 0.2
    domain = maps.ring(lambda R: 0.5 * jnp.exp(R / 5), 1.0, t=(0, 1))
    inputs = {"R": SpectralField(Domain(theta=Periodic(0, 2 * np.pi)), sigma=800, tau=3, gamma=6)}
    conditions = [Value({"t": 0}), Value({"rho": 0}, equals=lambda t: t**2 * (3 - 2 * t)), Normal({"rho": 1})]

    def equation(self, s_t, s_xx, s_yy):
        return s_t - self.conductivity * (s_xx + s_yy)


if __name__ == "__main__":
    operator = seponet.train(Ring)
    walls = Ring().sample(jax.random.key(7), 2)
    grid: dict[str, Any] = {"t": [0.5, 1.0], "rho": np.linspace(0, 1, 31), "theta": np.linspace(0, 2 * np.pi, 121)}
    s = operator.predict(walls, error=True, **grid)
    print("estimated errors:", s.error.values)
    plots.draw(s).savefig("ring.png")
    seponet.write_vtk(s, "ring.pvd")
