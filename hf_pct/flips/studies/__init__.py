"""The papers' analyses, from tables of predictions: ensembles, displacement, uncertainty, epochs."""
