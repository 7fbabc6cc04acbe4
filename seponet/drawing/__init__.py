"""How pictures look, and pictures of single predictions: what an operator needs to draw itself."""
