"""From equations and a model to numbers. Knows no network: a model is whatever has the methods of `model.Model`."""
