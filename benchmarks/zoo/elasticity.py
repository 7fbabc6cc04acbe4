"""Linear elasticity: a clamped square under body forces, in plane strain."""

from _elliptic import Box, solve_elasticity

from seponet import Domain, Problem, Value
from seponet.functions import GaussianField, as_callable


class Elasticity(Problem):
    r"""$\mu \Delta d + (\lambda + \mu) \nabla \nabla \cdot d + (f, g) = 0$, d = (p, q), and d = 0 on all walls."""

    lam: float = 0.577  # Young's modulus 1, Poisson's ratio 0.3
    mu: float = 0.385
    domain, fields = Domain(x=(0, 1), y=(0, 1)), ("p", "q")
    inputs = {"f": GaussianField(domain, length_scale=0.3), "g": GaussianField(domain, length_scale=0.3)}
    conditions = [Value({axis: (0, 1)}, field=field) for axis in ("x", "y") for field in ("p", "q")]

    def equation_p(self, p_xx, p_yy, q_xy, f):
        return (self.lam + 2 * self.mu) * p_xx + self.mu * p_yy + (self.lam + self.mu) * q_xy + f

    def equation_q(self, q_xx, q_yy, p_xy, g):
        return self.mu * q_xx + (self.lam + 2 * self.mu) * q_yy + (self.lam + self.mu) * p_xy + g

    reference_resolution = 40

    def reference(self, inputs, points, resolution):
        box = Box(self.domain, resolution)
        forces = [as_callable(inputs[name])(*box.nodes) for name in ("f", "g")]
        p, q = box.at(solve_elasticity(box, self.lam, self.mu, forces), points)
        return {"p": p, "q": q}
