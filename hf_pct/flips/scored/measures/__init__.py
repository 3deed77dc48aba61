"""What is measured between two tables of scores: outcomes, rates, means, their tests, the noise floor, slices."""
