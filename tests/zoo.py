"""Problems that are not the paper's: each exercises something that its six do not. And small models for them."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from seponet import Derivative, Domain, Grid, Periodic, Problem, Residual, Robin, Value, nn
from seponet.functions import GaussianField, Scalar, SpectralField, Vector

LINE = Domain(x=(0.0, 1.0))
CIRCLE = Domain(x=Periodic(0.0, 1.0))
BOX = Domain(x=(-1.0, 1.0), y=(0.0, 1.5))
TORUS = Domain(x=Periodic(0.0, 2 * np.pi), y=Periodic(0.0, 2 * np.pi))
"""Domains for spaces of functions."""


class Poisson(Problem):
    r"""Learn $u \mapsto s$ where $s_{xx} + s_{yy} = u(x, y)$ and $s = 0$ on all four walls: no time."""

    domain = Domain(x=(0, 1), y=(0, 2))
    inputs = {"u": GaussianField(domain, length_scale=0.5)}
    conditions = [Value({"x": (0, 1)}), Value({"y": (0, 2)})]

    def equation(self, s_xx, s_yy, u):
        return s_xx + s_yy - u


class Wave(Problem):
    r"""$s_{tt} = c^2 s_{xx}$, $s(0, x) = u$, $s_t(0, x) = v$, $s = 0$ at both ends: two initial conditions."""

    c: float = 1.0
    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {
        "u": SpectralField(domain["x"], sigma=30.0, tau=3.0, gamma=4.0),
        "v": SpectralField(domain["x"], sigma=30.0, tau=3.0, gamma=4.0),
    }
    conditions = [Value({"t": 0}, equals="u"), Derivative({"t": 0}, equals="v"), Value({"x": (0, 1)})]

    def equation(self, s_tt, s_xx):
        return s_tt - self.c**2 * s_xx


class AllenCahn(Problem):
    r"""$s_t = \epsilon s_{xx} + s - s^3$ with Neumann walls."""

    epsilon: float = 0.02
    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=30.0, tau=3.0, gamma=4.0)}
    # u vanishes at the walls, so its square has no slope there.
    conditions = [Value({"t": 0}, equals=lambda u, x: (1 + x) * u**2), Derivative({"x": (0, 1)})]

    def equation(self, s, s_t, s_xx):
        return s_t - self.epsilon * s_xx - s + s**3


class KdV(Problem):
    r"""$s_t + 6 s s_x + \delta^2 s_{xxx} = 0$, periodic: third order."""

    delta: float = 0.1
    domain = Domain(t=(0, 0.5), x=Periodic(-1, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=100.0, tau=5.0, gamma=5.0)}
    conditions = [Value({"t": 0}, equals="u")]

    def equation(self, s, s_t, s_x, s_xxx):
        return s_t + 6 * s * s_x + self.delta**2 * s_xxx


class AnisotropicHeat(Problem):
    r"""$s_t = a_0 s_{xx} + a_1 s_{yy} + a_2 s_{zz}$ in three space dimensions, with a Robin wall and a mixed term."""

    domain = Domain(t=(0, 1), x=(0, 1), y=(0, 1), z=Periodic(0, 1))
    inputs = {"a": Vector([0.1, 0.1, 0.1], [1.0, 1.0, 1.0])}
    conditions = [
        Value({"t": 0}, equals=lambda x, y: jnp.sin(jnp.pi * x) * y**2),
        Value({"x": (0, 1)}),
        Derivative({"y": 0}),
        Robin({"y": 1}, value=-2.0, derivative=1.0),
    ]

    def equation(self, s_t, s_xx, s_yy, s_zz, s_xy, a):
        return s_t - a[0] * s_xx - a[1] * s_yy - a[2] * s_zz - 0.01 * s_xy


class Brusselator(Problem):
    r"""Two fields: $p_t = D p_{xx} + p^2 q - 2p + u$, $q_t = D q_{xx} + p - p^2 q$."""

    diffusion: float = 0.05
    domain = Domain(t=(0, 1), x=(0, 1))
    fields = ("p", "q")
    inputs = {"u": GaussianField(domain["x"], length_scale=0.3)}
    conditions = [
        Value({"t": 0}, equals=0.5, field="p"),
        Value({"t": 0}, equals=1.0, field="q"),
        Value({"x": (0, 1)}, equals=0.5, field="p"),
        Derivative({"x": (0, 1)}, field="q"),
    ]

    def equation_p(self, p, q, p_t, p_xx, u):
        return p_t - self.diffusion * p_xx - p**2 * q + 2 * p - u

    def equation_q(self, p, q, q_t, q_xx):
        return q_t - self.diffusion * q_xx - p + p**2 * q


class Reactor(Problem):
    r"""Two functions and a scalar: $s_t = \nu s_{xx} - (v s)_x + u \cos t$, with a wall where $s_x = \nu (s^4 - u)$."""

    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {
        "u": GaussianField(domain["x"], length_scale=0.3),
        "v": GaussianField(domain, length_scale=0.5),
        "nu": Scalar(0.01, 0.1, log=True),
    }
    conditions = [
        Value({"t": 0}),
        Value({"x": 0}, equals=lambda t: t * jnp.exp(-t)),
        Residual({"x": 1}, lambda s, s_x, u, nu: s_x - nu * (s**4 - u)),
    ]

    def equation(self, s, s_t, s_x, s_xx, u, v, v_x, nu, t):
        return s_t - nu * s_xx + v * s_x + v_x * s - u * jnp.cos(t)


class Plate(Problem):
    r"""No input, fourth order and mixed: the clamped plate $s_{xxxx} + 2 s_{xxyy} + s_{yyyy} = 1$."""

    domain = Domain(x=(0, 1), y=(0, 1))
    conditions = [Value({"x": (0, 1)}), Derivative({"x": (0, 1)}), Value({"y": (0, 1)}), Derivative({"y": (0, 1)})]

    def equation(self, s_xxxx, s_xxyy, s_yyyy):
        return s_xxxx + 2 * s_xxyy + s_yyyy - 1.0


class Pendulum(Problem):
    r"""One axis only: $s_{tt} = -\sin s$ from rest at the angle $a$."""

    domain = Domain(t=(0, 3))
    inputs = {"a": Scalar(0.1, 2.0)}
    conditions = [Value({"t": 0}, equals="a"), Derivative({"t": 0})]

    def equation(self, s, s_tt):
        return s_tt + jnp.sin(s)


ZOO = (Poisson, Wave, AllenCahn, KdV, AnisotropicHeat, Brusselator, Reactor, Plate, Pendulum)


def small(problem: Problem, **config: Any) -> nn.OperatorNetwork:
    """A model with random weights that compiles fast."""
    sizes = {
        "rank": 3,
        "trunk_width": 5,
        "trunk_depth": 1,
        "branch_width": 5,
        "branch_depth": 1,
        "sensors": 4,
        "wavenumbers": 2,
    }
    return nn.build(problem, key=jax.random.key(7), **{**sizes, **config})


def random_grid(problem: Problem, sizes: tuple[int, ...] = (5, 7, 4, 3)) -> Grid:
    """Random points along each axis, in ascending order."""
    generator = np.random.default_rng(3)
    points = {
        name: jnp.asarray(np.sort(generator.uniform(axis.lower, axis.upper, n)))
        for n, (name, axis) in zip(sizes, problem.domain.axes, strict=False)
    }
    return Grid.of(problem.domain, points)


QUICK: dict[str, Any] = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Compiler options for programs that run once: a third of the compile time."""


def quick_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    jit: Any = eqx.filter_jit  # its annotations don't know the compiler's options
    return jit(function, compiler_options=QUICK)
