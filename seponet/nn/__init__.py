"""Networks and models: branches, trunks, decoders, SepONet and DeepONet."""

from .branch import Branch as Branch
from .branch import Constant as Constant
from .build import ModelConfig as ModelConfig
from .build import build as build
from .decoders import CP as CP
from .decoders import Tucker as Tucker
from .deeponet import DeepONet as DeepONet
from .deeponet import RepeatedDeepONet as RepeatedDeepONet
from .fixed import Fixed as Fixed
from .fixed import trainable as trainable
from .mlp import MLP as MLP
from .model import OperatorNetwork as OperatorNetwork
from .modified_mlp import ModifiedMLP as ModifiedMLP
from .seponet import SepONet as SepONet
from .trunks import BasisTrunk as BasisTrunk
from .trunks import NetworkTrunk as NetworkTrunk
from .whitening import Whitening as Whitening
