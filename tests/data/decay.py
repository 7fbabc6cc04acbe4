"""A problem that is compiled in no time: decay at a rate that is the input."""

import numpy as np

from seponet import Domain, Problem, Value
from seponet.functions import Scalar


class Decay(Problem):
    domain = Domain(t=(0, 1))
    inputs = {"a": Scalar(0.5, 2.0)}
    conditions = [Value({"t": 0}, equals=1.0)]

    def equation(self, s, s_t, a):
        return s_t + a * s

    def reference(self, inputs, points):  # pyright: ignore[reportIncompatibleMethodOverride]
        rates = np.asarray(inputs["a"].parameters, np.float64)
        return {"s": np.exp(-rates[:, None] * points["t"][None])}
