"""The first format of saved operators, which named classes by the modules that they were in; brought to the second."""

from collections.abc import Mapping
from typing import Any

NAMES: Mapping[str, str] = {
    "seponet.domain:Interval": "axis/interval",
    "seponet.domain:Periodic": "axis/periodic",
    "seponet.domain:Domain": "domain",
    "seponet.domain:Trace": "trace",
    "seponet.basis:Chebyshev": "basis/chebyshev",
    "seponet.basis:Fourier": "basis/fourier",
    "seponet.functions.gaussian:KarhunenLoeve": "basis/karhunen_loeve",
    "seponet.basis:Legendre": "basis/legendre",
    "seponet.basis:Orthonormal": "basis/orthonormal",
    "seponet.basis:Sine": "basis/sine",
    "seponet.functions.spline:Spline": "basis/spline",
    "seponet.nodal:Nodal": "basis/trigonometric_cardinal",
    "seponet.functions.bumps:Bumps": "space/bumps",
    "seponet.functions.gaussian:GaussianField": "space/gaussian",
    "seponet.inputs:Interpolant": "space/interpolant",
    "seponet.functions.positive:Positive": "space/positive",
    "seponet.functions.values:Scalar": "space/scalar",
    "seponet.functions.solenoidal:SolenoidalField": "space/solenoidal",
    "seponet.functions.spectral:SpectralField": "space/spectral",
    "seponet.functions.values:Vector": "space/vector",
    "seponet.conditions:Derivative": "condition/derivative",
    "seponet.conditions:Robin": "condition/robin",
    "seponet.conditions:Value": "condition/value",
    "seponet.constraints:Projector": "exact/projector",
    "seponet.nn.potentials:Potentials": "exact/potentials",
    "seponet.nn.deeponet:DeepONet": "model/deeponet",
    "seponet.nn.deeponet:RepeatedDeepONet": "model/deeponet_repeated",
    "seponet.nn.seponet:SepONet": "model/seponet",
    "seponet.nn.branch:Constant": "branch/constant",
    "seponet.nn.branch:Branch": "branch/sensors",
    "seponet.nn.field:FieldBranch": "branch/spectral",
    "seponet.nn.field:FieldBlock": "branch/spectral_block",
    "seponet.nn.field:SpectralFilter": "branch/spectral_filter",
    "seponet.nn.translation:Translation": "branch/translation",
    "seponet.nn.cnn:CNN": "encoder/cnn",
    "seponet.nn.encoders:Flatten": "encoder/flatten",
    "seponet.nn.encoders:PCA": "encoder/pca",
    "seponet.nn.encoders:Standardise": "encoder/standardise",
    "seponet.nn.encoders:Transformed": "encoder/transformed",
    "seponet.nn.trunks:BasisTrunk": "trunk/basis",
    "seponet.nn.trunks:NetworkTrunk": "trunk/network",
    "seponet.nn.decoders:CP": "decoder/cp",
    "seponet.nn.decoders:Tucker": "decoder/tucker",
    "seponet.nn.whitening:ModalScaling": "coefficients/modal_scaling",
    "seponet.nn.whitening:Whitening": "coefficients/whitening",
    "seponet.nn.features:Affine": "coordinates/affine",
    "seponet.nn.features:Chain": "coordinates/chain",
    "seponet.nn.features:Coordinatewise": "coordinates/coordinatewise",
    "seponet.nn.features:PeriodicFeatures": "coordinates/periodic",
    "seponet.nn.cnn:Convolution": "layer/convolution",
    "seponet.nn.fixed:Fixed": "layer/fixed",
    "seponet.nn.linear:Linear": "layer/linear",
    "seponet.nn.cnn:ResidualBlock": "layer/residual",
    "seponet.nn.mlp:MLP": "network/mlp",
    "seponet.nn.modified_mlp:ModifiedMLP": "network/modified_mlp",
    "seponet.problems.advection:Advection": "problem/advection",
    "seponet.problems.advection:AdvectionInformed": "problem/advection_informed",
    "seponet.problems.burgers:Burgers": "problem/burgers",
    "seponet.problems.diffusion_reaction:DiffusionReaction": "problem/diffusion_reaction",
    "seponet.problems.heat:Heat": "problem/heat",
    "seponet.problems.navier_stokes:NavierStokes": "problem/navier_stokes",
    "seponet.problems.nonlinear_diffusion:NonlinearDiffusion": "problem/nonlinear_diffusion",
}
"""Module and class as they were in version 0.1.0 -> the name under which the class is registered."""


def from_format1(description: Any) -> Any:
    """The description of a value in format 2, from that in format 1."""
    if not isinstance(description, dict):
        return description
    (kind, content), *_ = description.items()
    if kind in ("list", "tuple"):
        return {kind: [from_format1(value) for value in content]}
    if kind == "dict":
        return {kind: [[key, from_format1(value)] for key, value in content]}
    if kind == "class":
        return {kind: _class(content)}
    if kind in ("object", "problem"):
        return {kind: _class(content), "fields": {n: from_format1(v) for n, v in description["fields"].items()}}
    return description


def _class(address: Mapping[str, str]) -> str | Mapping[str, str]:
    """A registered name for a class of the package; a user's class, which has a file, keeps its address."""
    if "file" in address:
        return address
    name = NAMES.get(f"{address['module']}:{address['name']}")
    if name is None:
        raise ValueError(
            f"there is no {address['name']} in the module {address['module']}; it was saved by another version of it"
        )
    return name
