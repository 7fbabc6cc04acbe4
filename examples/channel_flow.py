"""Potential flow through a channel with a random wall: stream function, velocity, streamlines; draws channel.png."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import seponet
from seponet import Periodic, Problem, Value, maps
from seponet.functions import SpectralField


class Channel(Problem):
    r"""$h \mapsto s$ where $\Delta s = 0$, s = 0 on the floor and s = 1 on the wall $y = e^{h(x)} / 2$: a unit flux."""

    domain = maps.channel(lambda h: jnp.exp(h) / 2, x=Periodic(0, 2))
    inputs = {"h": SpectralField(domain["x"], sigma=200, tau=4, gamma=5)}
    conditions = [Value({"q": 0}), Value({"q": 1}, equals=1.0)]

    def equation(self, s_xx, s_yy):
        return s_xx + s_yy


if __name__ == "__main__":
    operator = seponet.train(Channel)
    walls = Channel().sample(jax.random.key(3), 3)
    grid: dict[str, Any] = {"x": np.linspace(0, 2, 161), "q": np.linspace(0, 1, 41)}
    s, slopes = operator.predict(walls, **grid), operator.predict(walls, derivative=["s_x", "s_y"], **grid)
    speed = np.hypot(slopes.s_x, slopes.s_y)  # u = s_y and v = -s_x, physical derivatives
    figure = Figure(figsize=(11, 1.6), layout="constrained")
    for i, axes in enumerate(figure.subplots(1, 3)):
        x, y = np.broadcast_arrays(s.x.values[:, None], s.y[i])
        figure.colorbar(axes.pcolormesh(x, y, speed[i], shading="gouraud"), ax=axes, label="speed", shrink=0.8)
        axes.contour(x, y, s[i], levels=np.linspace(0, 1, 9), colors="w", linewidths=0.7)
        axes.set_aspect("equal")
    figure.savefig("channel.png", dpi=150)
