"""What every room uses: labels, files, hashes, errors, lazy names. Standard library, NumPy and xxhash only."""
