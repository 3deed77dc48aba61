"""Options of `card` and `push`: what the report and the model's files may not say."""

import argparse


def add_card_facts(parser: argparse.ArgumentParser) -> None:
    """What the report and the files may not know."""
    facts = parser.add_argument_group("for the card")
    facts.add_argument("--license", help="by default that of the old model's card")
    facts.add_argument("--base_model", nargs="+", help="what the weights started from; by default the old model")
    facts.add_argument("--old_model", help="the old model's id on the Hub, when it was measured from a copy")
    facts.add_argument("--old_revision", help="its commit")
    facts.add_argument("--dataset_revision", help="commit of the dataset that was measured on")
