"""MODELS: loading them, the data they read, running one over the other, ensembles, Fisher information."""
