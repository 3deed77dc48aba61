"""Mutated inputs of every kind against the command line: `make test-attack`."""
