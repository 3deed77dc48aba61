"""A process with the real clients pointed at the loopback Hub. It runs the code it is sent and answers with JSON.

huggingface_hub reads its endpoint when it is imported, and importing transformers takes seconds: one process with the
right environment serves all tests.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import traceback


def cli(verb: str, *arguments: object) -> int:
    """A verb as `hf-pct` runs it: errors that a person can mend become exit codes."""
    from hf_pct.cli.commands import load_command
    from hf_pct.core.errors import NotComparableError

    parser = argparse.ArgumentParser(prog=f"hf-pct {verb}")
    command = load_command(verb)
    command.add_arguments(parser)
    args = parser.parse_args([str(argument) for argument in arguments])
    try:
        return command.run(args)
    except NotComparableError as error:
        print(f"not comparable: {error}")
        return 3
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"error: {error}")
        return 2


def main() -> None:
    # the protocol gets a channel of its own: libraries print what they like
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        names = {"cli": cli, "a": argparse.Namespace(**asked["arguments"]), "result": None}
        os.environ["HF_TOKEN"] = asked["token"]
        out = io.StringIO()
        answer: dict = {}
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(asked["code"], "<test>", "exec"), names)
            answer["result"] = names["result"]
        except Exception as error:
            answer |= {"error": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
        print(json.dumps({**answer, "out": out.getvalue()}, default=str), file=channel, flush=True)


if __name__ == "__main__":
    main()
