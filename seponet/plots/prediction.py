"""Whatever `predict` returned, drawn."""

from ..drawing.prediction import draw as draw
