"""MEASURE: the flips between an old and a new model. NumPy, SciPy and pyarrow only; nothing here imports torch."""
