"""Networks and models: branches, trunks, decoders, SepONet and DeepONet."""

from ..calculus.decoders import CP, AbstractDecoder, Tucker
from .branch import AbstractBranch, Branch, Constant
from .build import build
from .coefficient_maps import AbstractCoefficientMap, ModalScaling, Whitening
from .config import ModelConfig
from .deeponet import DeepONet
from .fixed import Fixed, trainable
from .gated_mlp import GatedMLP
from .mlp import MLP
from .model import OperatorNetwork
from .modified_mlp import ModifiedMLP
from .repeated_deeponet import RepeatedDeepONet
from .seponet import SepONet
from .trunks import AbstractTrunk, BasisTrunk, NetworkTrunk

__all__ = [
    "CP",
    "MLP",
    "AbstractBranch",
    "AbstractCoefficientMap",
    "AbstractDecoder",
    "AbstractTrunk",
    "BasisTrunk",
    "Branch",
    "Constant",
    "DeepONet",
    "Fixed",
    "GatedMLP",
    "ModalScaling",
    "ModelConfig",
    "ModifiedMLP",
    "NetworkTrunk",
    "OperatorNetwork",
    "RepeatedDeepONet",
    "SepONet",
    "Tucker",
    "Whitening",
    "build",
    "trainable",
]
