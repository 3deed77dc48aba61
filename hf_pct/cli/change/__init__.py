"""Commands that run or change models."""
