"""Other people's PDEs, one file each: written as a new user would, with references that share nothing with the library.

`seponet bench zoo` measures on them; each is also a problem by itself, `seponet train benchmarks/zoo/kdv.py:KdV`.
"""

from pathlib import Path

FOLDER = Path(__file__).parent

PROBLEMS: dict[str, str] = {
    "FisherKPP": "fisher_kpp.py:FisherKPP",
    "FitzHughNagumo": "fitzhugh_nagumo.py:FitzHughNagumo",
    "Telegraph": "telegraph.py:Telegraph",
    "PoissonSource": "poisson_source.py:PoissonSource",
    "PoissonBoundary": "poisson_boundary.py:PoissonBoundary",
    "Helmholtz": "helmholtz.py:Helmholtz",
    "Darcy": "darcy.py:Darcy",
    "Elasticity": "elasticity.py:Elasticity",
    "Bratu": "bratu.py:Bratu",
    "KdV": "kdv.py:KdV",
    "KuramotoSivashinsky": "kuramoto_sivashinsky.py:KuramotoSivashinsky",
    "BurgersViscosity": "burgers_viscosity.py:BurgersViscosity",
    "Schroedinger": "schroedinger.py:Schroedinger",
    "ShallowWater": "shallow_water.py:ShallowWater",
    "AllenCahn2D": "allen_cahn_2d.py:AllenCahn2D",
    "Poisson3D": "poisson_3d.py:Poisson3D",
    "HeatAnisotropic": "heat_anisotropic.py:HeatAnisotropic",
    "BlackScholes": "black_scholes.py:BlackScholes",
    "PoissonSines": "poisson_sines.py:PoissonSines",
    "AllenCahn": "allen_cahn.py:AllenCahn",
}
"""The address of each problem in this folder, by name."""


def address(name: str) -> str:
    """What `seponet.train`, `make_problem` and the commands find a problem by."""
    return str(FOLDER / PROBLEMS[name])
