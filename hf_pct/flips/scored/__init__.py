"""Comparing scores: outcomes of graded rows, repeated runs and several tasks."""
