"""Ready maps: mapped domains (`Mapped`) of usual shapes, their walls given by numbers, functions, points or inputs."""

from .curved import channel, transfinite
from .round import annulus, disk, ring, sector

__all__ = ["annulus", "channel", "disk", "ring", "sector", "transfinite"]
