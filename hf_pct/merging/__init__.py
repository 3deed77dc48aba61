"""Merge: weights between an old and a new model, and the alpha that keeps a promise about accuracy and flips."""
