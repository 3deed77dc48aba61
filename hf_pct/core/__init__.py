"""What every room stands on: labels, files, hashes, errors, lazy names. Standard library, NumPy and xxhash only."""
