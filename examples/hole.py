"""Heat round a hole, its radius an input: s = x on the square, four mirrored patches (docs/geometry.md); hole.png."""

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import seponet
from seponet import Domain, Mapped, Normal, Problem, Value
from seponet.functions import Scalar


class Hole(Problem):
    """The quarter between diagonals: u is even across the upper one, odd across the lower, v the other way round."""

    fields = ("u", "v")
    domain = Mapped(Domain(p=(-1, 1), q=(0, 1)), x=lambda p, q, a: (1 - q) * a * jnp.cos(np.pi / 4 * p) + q,
                    y=lambda p, q, a: (1 - q) * a * jnp.sin(np.pi / 4 * p) + q * jnp.tan(np.pi / 4 * p))  # fmt: skip
    inputs = {"a": Scalar(0.2, 0.7)}
    conditions = [Normal({"q": 0}, field="u"), Value({"q": 1}, equals=lambda y: (1 + y) / 2, field="u"),
                  Normal({"p": 1}, field="u"), Value({"p": -1}, field="u"),
                  Normal({"q": 0}, field="v"), Value({"q": 1}, equals=lambda y: (1 - y) / 2, field="v"),
                  Normal({"p": -1}, field="v"), Value({"p": 1}, field="v")]  # fmt: skip

    def equation_u(self, u_xx, u_yy):
        return u_xx + u_yy

    def equation_v(self, v_xx, v_yy):
        return v_xx + v_yy


if __name__ == "__main__":
    operator = seponet.train(Hole)
    s = operator.predict([0.25, 0.45, 0.65], p=np.linspace(-1, 1, 61), q=np.linspace(0, 1, 41))
    figure = Figure(figsize=(10, 2.9), layout="constrained")
    for i, axes in enumerate(figure.subplots(1, 3, subplot_kw={"aspect": "equal"})):
        u, v, x, y = (s[name][i] for name in "uvxy")
        parts = ((u + v, x, y), (u - v, y, x), (-u - v, -x, -y), (v - u, -y, -x))
        drawn = [axes.contourf(across, up, s, levels=np.linspace(-1, 1, 41)) for s, across, up in parts]
        figure.colorbar(drawn[0], ax=axes, ticks=[-1, 0, 1], label="s")
    figure.savefig("hole.png", dpi=150)
