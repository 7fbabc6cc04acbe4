"""Bratu's equation of combustion, up to shortly before its fold."""

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from seponet import Domain, Problem, Value
from seponet.functions import Scalar, as_callable


class Bratu(Problem):
    r"""Learn $\lambda \mapsto s$ where $s'' + \lambda e^s = 0$, $s(0) = s(1) = 0$, on the lower branch.

    The branches meet at $\lambda = 3.5138$. Exact: $s = 2 \log(\cosh(a/2) / \cosh(a (x - 1/2)))$ with the smaller root
    of $a = \sqrt{\lambda/2} \cosh(a/2)$.
    """

    domain = Domain(x=(0, 1))
    inputs = {"lam": Scalar(0.5, 3.5)}
    conditions = [Value({"x": (0, 1)})]

    def equation(self, s, s_xx, lam):
        return s_xx + lam * jnp.exp(s)

    def reference(self, inputs, points):
        lam = as_callable(inputs["lam"])()
        a = np.array([brentq(lambda a, root=root: a - root * np.cosh(a / 2), 0, 2.3993) for root in np.sqrt(lam / 2)])
        return {"s": 2 * np.log(np.cosh(a / 2)[:, None] / np.cosh(np.outer(a, points["x"] - 0.5)))}
