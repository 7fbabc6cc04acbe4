"""The price of a European call by the equation of Black and Scholes, in units of the strike and years to maturity."""

import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from seponet import Domain, Problem, Value
from seponet.functions import Scalar, as_callable


class BlackScholes(Problem):
    r"""Learn $(\sigma, r) \mapsto V$ where $V_t = \sigma^2 S^2 V_{SS} / 2 + r S V_S - r V$, $V(0, S) = \max(S - 1, 0)$.

    At S = 3 V is the usual asymptote; the reference is the formula on all S > 0, which is 4e-7 above it at most.
    """

    domain, fields = Domain(t=(0, 1), S=(0, 3)), ("V",)
    inputs = {"sigma": Scalar(0.1, 0.25), "r": Scalar(0.01, 0.05)}
    conditions = [Value({"t": 0}, equals=lambda S: jnp.maximum(S - 1, 0))]
    conditions += [Value({"S": 0}), Value({"S": 3}, equals=lambda t, r: 3 - jnp.exp(-r * t))]

    def equation(self, V, V_t, V_S, V_SS, S, sigma, r):
        return V_t - sigma**2 * S**2 * V_SS / 2 - r * S * V_S + r * V

    def reference(self, inputs, points):
        sigma, r = (as_callable(inputs[name])()[:, None, None] for name in ("sigma", "r"))
        t, S = np.maximum(points["t"], 1e-12)[:, None], np.maximum(points["S"], 1e-12)
        d = (np.log(S) + (r + sigma**2 / 2) * t) / (sigma * np.sqrt(t))
        return {"V": S * ndtr(d) - np.exp(-r * t) * ndtr(d - sigma * np.sqrt(t))}
