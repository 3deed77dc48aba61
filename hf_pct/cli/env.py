"""`hf-pct env`: versions and devices."""

import argparse

HELP = "Show versions and devices, for a bug report."
EXAMPLE = "hf-pct env"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def run(args: argparse.Namespace) -> int:
    from ..core.versions import describe_environment

    print(describe_environment())
    return 0
