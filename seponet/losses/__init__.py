"""How far a model is from its equations: at points, in Fourier space, linearised, against data."""
