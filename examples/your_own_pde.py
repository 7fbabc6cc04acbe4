"""Your own PDE in one file: write it, check it, train it.

python examples/your_own_pde.py           # checks the equation, then trains for about a minute
seponet train examples/your_own_pde.py:FisherKPP --out runs/fisher      # the same from the command line
"""

import jax
import jax.numpy as jnp
import numpy as np

import seponet
from seponet import Derivative, Domain, Problem, Value
from seponet.functions import GaussianField


class FisherKPP(Problem):
    r"""Learn $u \mapsto s$ where $s_t = D s_{xx} + \rho s (1 - s)$, $s(0, x) = e^{u(x)} / 4$, insulated ends.

    The initial states have slopes at the ends, which contradicts the insulation: no smooth function satisfies both
    conditions. That is found before training, and the conditions on x are imposed softly.
    """

    diffusivity: float = 0.01
    growth: float = 3.0
    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {"u": GaussianField(domain["x"], length_scale=0.3, variance=0.3)}
    conditions = [Value({"t": 0}, equals=lambda u: jnp.exp(u) / 4), Derivative({"x": (0, 1)})]

    def equation(self, s, s_t, s_xx):
        return s_t - self.diffusivity * s_xx - self.growth * s * (1 - s)


if __name__ == "__main__":
    operator = seponet.train(FisherKPP(), recipe="quick")
    u = FisherKPP().sample(jax.random.key(1), 5)
    s = operator.predict(u, t=np.linspace(0, 1, 5), x=np.linspace(0, 1, 6))
    print(s.isel(function=0).round(3))
    print("root mean square residuals, no reference needed:", operator.residual(u))
