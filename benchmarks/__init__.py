"""Benchmarks: the papers' tables, speed against peers as ratios within one run, and simulations."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The repository: what runs leave behind goes into its `build/`."""
