"""The paper's problems, by name. Adding one is a file and a line here."""

from collections.abc import Mapping

from .._text import did_you_mean
from ..equations.problem import Problem
from .advection import Advection as Advection
from .advection import AdvectionInformed as AdvectionInformed
from .burgers import Burgers as Burgers
from .diffusion_reaction import DiffusionReaction as DiffusionReaction
from .heat import Heat as Heat
from .navier_stokes import NavierStokes as NavierStokes
from .nonlinear_diffusion import NonlinearDiffusion as NonlinearDiffusion

PROBLEMS: Mapping[str, type[Problem]] = {
    "diffusion_reaction": DiffusionReaction,
    "advection": Advection,
    "advection_informed": AdvectionInformed,
    "burgers": Burgers,
    "nonlinear_diffusion": NonlinearDiffusion,
    "heat": Heat,
    "navier_stokes": NavierStokes,
}


def find_problem(name: str) -> type[Problem]:
    """The problem registered under `name`; the error for any other name suggests the nearest one."""
    if name in PROBLEMS:
        return PROBLEMS[name]
    hint = did_you_mean(name, PROBLEMS)
    raise ValueError(
        f"there is no problem {name!r}{hint}; choose one of {', '.join(PROBLEMS)}, or path/to/file.py:ClassName"
    )


def name_of(problem: Problem) -> str | None:
    """The name under which a problem is registered, if it is."""
    return next((name for name, kind in PROBLEMS.items() if type(problem) is kind), None)
