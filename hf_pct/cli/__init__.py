"""The command `hf-pct`: one module per command, which parses, calls one library function and returns an exit code.

Nothing heavy is imported before it is needed.
"""

from .commands import COMMANDS
from .entry import build_parser, main

__all__ = ["COMMANDS", "build_parser", "main"]
