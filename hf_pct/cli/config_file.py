"""`--config`: a YAML file with the same keys as a command's options. Options on the command line override it."""

import argparse
import difflib
import json
from collections.abc import Sequence
from pathlib import Path

from ..core.decode import JsonObject, load_yaml

HELP = "YAML file with the same keys as these options, `key: value` per line; options given here go over it"
_WHAT = "a YAML file of options, `key: value` per line"


def config_of(arguments: Sequence[str]) -> Path | None:
    """The file that `--config` names on a command line, before that line is parsed."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config", type=Path)
    try:
        return parser.parse_known_args(list(arguments))[0].config
    except argparse.ArgumentError:  # --config without a file: the command's own parser says so
        return None


def apply_config(parser: argparse.ArgumentParser, path: Path, recorded: JsonObject | None = None) -> None:
    """Make the file's values the defaults of a command's options; every problem in it is reported at once.

    `recorded` are the options where the file is a record that holds more than them.
    """
    values = load_yaml(path, _WHAT) if recorded is None else recorded
    if not isinstance(values, dict):
        kind = "nothing" if values is None else type(values).__name__
        raise ValueError(f"{path} holds {kind}, expected lines such as `max_nfr: 0.01`.")
    actions = _actions(parser)
    problems, settings = [], {}
    for name, value in values.items():
        action = actions.get(name) if isinstance(name, str) else None
        if action is None:
            close = difflib.get_close_matches(str(name), actions, n=1)
            problems.append(f"{name!r} is no option of {parser.prog}" + _hint(close))
        elif action.dest in settings:
            problems.append(f"{name!r} is another name of an option that is set already")
        elif value is not None:
            try:
                settings[action.dest] = _read(action, value)
            except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
                problems.append(f"{name}: {error}")
    if problems:
        raise ValueError(f"{path}:\n  " + "\n  ".join(problems))
    for action in actions.values():
        if action.dest in settings:
            action.required = False
            action.default = settings[action.dest]
            if not action.option_strings and action.nargs is None:
                action.nargs = "?"  # a positional that the file gives may be left out


def _hint(close: list[str]) -> str:
    return f" (did you mean {close[0]}?)" if close else "; --help lists them"


def _actions(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Every option by all its names, without dashes."""
    named = {}
    for action in parser._actions:
        if action.dest not in ("help", "config", "debug"):
            for name in (action.dest, *(option.lstrip("-") for option in action.option_strings)):
                named[name] = action
    return named


def _read(action: argparse.Action, value: object) -> object:
    """A value of the file as the option would have read it from the command line."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise ValueError(f"is {value!r}, expected true or false")
        return value
    if action.nargs in ("+", "*"):
        return [_read_one(action, entry) for entry in (value if isinstance(value, list) else [value])]
    return _read_one(action, value)


def _read_one(action: argparse.Action, value: object) -> object:
    if action.type in (int, float):
        allowed = (int,) if action.type is int else (int, float)
        if isinstance(value, bool) or not isinstance(value, allowed):
            raise ValueError(f"is {value!r}, expected a {'whole ' if action.type is int else ''}number")
        return action.type(value)
    if isinstance(value, dict) and callable(action.type):
        value = json.dumps(value)  # shares by group, as --alpha takes them
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"is {value!r}, expected text")
    converted = action.type(str(value)) if callable(action.type) else str(value)
    if action.choices is not None and converted not in action.choices:
        raise ValueError(f"is {value!r}, expected one of {', '.join(map(str, action.choices))}")
    return converted
