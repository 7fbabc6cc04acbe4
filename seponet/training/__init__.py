"""From a model to a trained model: configuration, batches, steps, the loop around them, checkpoints."""
