"""Text that comes from data (class names, ids, columns, model names), made safe for where it is shown.

Data may hold line ends, terminal escapes, CI commands, Markdown, mentions. None of it may look like our own words: a
class called `x\\nPASSED` stays one word on its line.
"""

import re

# commands that CI systems look for in a log: GitHub (::x:: at the start of a line, ##[x]), Azure, TeamCity
_LINE_COMMAND = re.compile(r"^(\s*)::", re.MULTILINE)
_ANYWHERE_COMMAND = re.compile(r"##(?=\w*\[)")
_MENTION = re.compile(r"@(?=\w)")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: object) -> str:
    """One line of text with all that a terminal would act on, and all that nobody sees, written out: `\\x1b`."""
    plain = str(text)
    shown = plain if plain.isprintable() else "".join(map(_shown, plain))
    return _ANYWHERE_COMMAND.sub(r"#\\#", shown)


def _shown(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    return _NAMED.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def quoted(text: object) -> str:
    """A spelling in quotes, so that spaces at its ends and invisible characters show."""
    return f"'{visible(text)}'"


def log_safe(text: str) -> str:
    """Lines for a terminal or a CI log: no byte is an escape, no line a command of GitHub, Azure or TeamCity."""
    return _LINE_COMMAND.sub(r"\1\\::", "\n".join(map(visible, text.split("\n"))))


def one_line(text: object) -> str:
    """Text without line breaks and control characters, whatever a model or a file is called."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in str(text)).split())


def markdown(text: object) -> str:
    """Text as one safe Markdown table cell: no markup, no HTML, no mention, no escape, no new row."""
    cell = one_line(text).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "|`*[]#!~":
        cell = cell.replace(mark, "\\" + mark)
    # an underscore inside a word is no markup, and names are easier to read and to search without the backslash
    cell = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", cell)
    return _MENTION.sub("@<!-- -->", cell)
