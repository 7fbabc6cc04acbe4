"""Short names of the package's own classes, under which saved operators know them.

A name is a promise: what a release wrote under it, every later one reads. So a class may move or be called otherwise:
its line below follows it, and the name stays. The homes are strings, and imported when a file asks for them: a
prediction loads the classes that it is made of, and no others.
"""

import functools
import importlib
from collections.abc import Mapping

PACKAGE = __name__.partition(".")[0]

CLASSES: Mapping[str, str] = {
    "axis/interval": "domain:Interval",
    "axis/periodic": "domain:Periodic",
    "domain": "domain:Domain",
    "trace": "derivatives:Trace",
    "basis/chebyshev": "bases.polynomial:Chebyshev",
    "basis/fourier": "bases.trigonometric:Fourier",
    "basis/karhunen_loeve": "functions.gaussian:KarhunenLoeve",
    "basis/legendre": "bases.polynomial:Legendre",
    "basis/orthonormal": "bases.orthonormal:Orthonormal",
    "basis/sine": "bases.trigonometric:Sine",
    "basis/spline": "bases.spline:Spline",
    "basis/trigonometric_cardinal": "bases.cardinal:TrigonometricCardinal",
    "space/bumps": "functions.bumps:Bumps",
    "space/gaussian": "functions.gaussian:GaussianField",
    "space/interpolant": "functions.interpolant:Interpolant",
    "space/positive": "functions.positive:Positive",
    "space/scalar": "functions.parameters:Scalar",
    "space/solenoidal": "functions.solenoidal:SolenoidalField",
    "space/spectral": "functions.spectral:SpectralField",
    "space/vector": "functions.parameters:Vector",
    "condition/derivative": "equations.conditions:Derivative",
    "condition/robin": "equations.conditions:Robin",
    "condition/value": "equations.conditions:Value",
    "exact/projector": "calculus.projectors:Projector",
    "exact/potentials": "calculus.potentials:Potentials",
    "model/deeponet": "nn.deeponet:DeepONet",
    "model/deeponet_repeated": "nn.repeated_deeponet:RepeatedDeepONet",
    "model/seponet": "nn.seponet:SepONet",
    "branch/constant": "nn.branch:Constant",
    "branch/marching": "nn.marching_branch:MarchingBranch",
    "branch/axis_filter": "nn.axis_filter:AxisFilter",
    "branch/grid_filter": "nn.axis_filter:GridFilter",
    "branch/sensors": "nn.branch:Branch",
    "branch/spectral": "nn.spectral_branch:FieldBranch",
    "branch/spectral_block": "nn.field_block:FieldBlock",
    "branch/spectral_filter": "nn.spectral_branch:SpectralFilter",
    "branch/translation": "nn.translation:Translation",
    "encoder/cnn": "nn.cnn:CNN",
    "encoder/flatten": "nn.encoders:Flatten",
    "encoder/pca": "nn.encoders:PCA",
    "encoder/standardise": "nn.encoders:Standardise",
    "encoder/transformed": "nn.encoders:Transformed",
    "trunk/basis": "nn.trunks:BasisTrunk",
    "trunk/network": "nn.trunks:NetworkTrunk",
    "decoder/cp": "calculus.decoders:CP",
    "decoder/tucker": "calculus.decoders:Tucker",
    "coefficients/modal_scaling": "nn.coefficient_maps:ModalScaling",
    "coefficients/principal_components": "nn.coefficient_maps:PrincipalComponents",
    "coefficients/whitening": "nn.coefficient_maps:Whitening",
    "calibration": "operator.estimate:Calibration",
    "calibration/inputs": "operator.input_range:InputRange",
    "calibration/ratios": "operator.estimate:Ratios",
    "coordinates/affine": "nn.coordinate_maps:Affine",
    "coordinates/chain": "nn.coordinate_maps:Chain",
    "coordinates/coordinatewise": "nn.coordinate_maps:Coordinatewise",
    "coordinates/periodic": "nn.coordinate_maps:PeriodicFeatures",
    "layer/convolution": "nn.cnn:Convolution",
    "layer/fixed": "nn.fixed:Fixed",
    "layer/linear": "nn.linear:Linear",
    "layer/residual": "nn.cnn:ResidualBlock",
    "network/affine_plus": "nn.affine_plus:AffinePlus",
    "network/gated_block": "nn.gated_mlp:GatedBlock",
    "network/gated_mlp": "nn.gated_mlp:GatedMLP",
    "network/mlp": "nn.mlp:MLP",
    "network/modified_mlp": "nn.modified_mlp:ModifiedMLP",
    "problem/advection": "problems.advection:Advection",
    "problem/advection_informed": "problems.advection:AdvectionInformed",
    "problem/burgers": "problems.burgers:Burgers",
    "problem/diffusion_reaction": "problems.diffusion_reaction:DiffusionReaction",
    "problem/heat": "problems.heat:Heat",
    "problem/navier_stokes": "problems.navier_stokes:NavierStokes",
    "problem/nonlinear_diffusion": "problems.nonlinear_diffusion:NonlinearDiffusion",
}
"""Name -> module and class, relative to the package."""


def registered_name(cls: type) -> str:
    """The name under which a class of the package is saved."""
    home = f"{cls.__module__.removeprefix(PACKAGE + '.')}:{cls.__qualname__}"
    name = _names().get(home)
    if name is None:
        raise ValueError(f"{cls.__name__} of {cls.__module__} is not part of a model, so it has no name to be saved by")
    return name


def registered_class(name: str) -> type:
    """The class that a name stands for, imported from where it is now."""
    if name not in CLASSES:
        raise ValueError(f"this version knows nothing called {name!r}; it was saved by a newer one, so install that")
    module, _, qualified = CLASSES[name].partition(":")
    return getattr(importlib.import_module(f"{PACKAGE}.{module}"), qualified)


@functools.cache
def _names() -> Mapping[str, str]:
    return {home: name for name, home in CLASSES.items()}
