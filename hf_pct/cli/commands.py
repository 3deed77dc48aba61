"""The list of commands. A new command is a module with the four names of `Command`, and one line here."""

import argparse
from importlib import import_module
from typing import Protocol, cast


class Command(Protocol):
    """What a command module has."""

    HELP: str  # one sentence
    EXAMPLE: str  # one command line that works, or several

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's options. Imports nothing heavy."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it, print what a person needs, return the exit code."""


# name -> module in this folder, in the order of `hf-pct --help`
COMMANDS = {
    "predict": "change.predict",
    "compare": "measure.compare",
    "gate": "measure.gate",
    "power": "measure.power",
    "traffic": "measure.traffic",
    "label-plan": "measure.label_plan",
    "retrieval": "measure.retrieval",
    "merge": "change.merge",
    "update": "change.update",
    "policy": "change.policy",
    "page": "measure.page",
    "card": "publish.card",
    "push": "publish.push",
    "verify": "publish.verify",
    "push-metric": "publish.push_metric",
    "demo": "demo",
    "env": "env",
}


def load_command(name: str) -> Command:
    """The module of a command."""
    return cast(Command, import_module(f".{COMMANDS[name]}", __package__))
