"""The diagonal of a classifier's Fisher information."""
