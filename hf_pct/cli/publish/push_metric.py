"""`hf-pct push-metric`: the `evaluate` metric as a Space."""

import argparse

HELP = "Publish the `evaluate` metric as a Space."
EXAMPLE = "hf-pct push-metric org/nfr"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("repo_id", metavar="REPO_ID", help="the Space: namespace/name; evaluate.load takes it by that")
    parser.add_argument("--metric", default="nfr", help="which of the kit's metrics")
    parser.add_argument("--private", action="store_true", default=None, help="make a private Space")
    parser.add_argument(
        "--sdk", choices=("gradio", "static"), default="gradio", help="static: without the page to try the metric on"
    )


def run(args: argparse.Namespace) -> int:
    """Publish a metric as a Space."""
    from ...hub.metric_space import push_metric

    done = push_metric(args.repo_id, args.metric, private=args.private, sdk=args.sdk)
    print(f"published: {done.url}")
    return 0
