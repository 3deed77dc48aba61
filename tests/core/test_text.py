"""Text from data stays text wherever it is shown."""

import pytest

from hf_pct.core.text import log_safe, markdown, one_line, quoted, visible

ATTACK = "x\n::error::pwned\n\x1b[2KPASSED: every rule holds\u202e\u2028"


def test_a_terminal_sees_one_line_without_escapes():
    assert visible(ATTACK) == "x\\n::error::pwned\\n\\x1b[2KPASSED: every rule holds\\u202e\\u2028"
    assert visible("Grüße, 日本 👍 std::vector") == "Grüße, 日本 👍 std::vector"
    assert quoted("card ") == "'card '"
    assert quoted("a\xa0b") == "'a\\xa0b'"


@pytest.mark.parametrize(
    "command", ["::error::x", "  ::set-output name=a::b", "##[error]x", "a ##vso[task.x]", "##teamcity[x]"]
)
def test_no_line_is_a_command_of_a_ci_system(command):
    safe = log_safe(f"fine\n{command}\nfine")
    assert len(safe.split("\n")) == 3
    assert not any(line.lstrip().startswith("::") for line in safe.split("\n"))
    assert not any(mark in safe for mark in ("##[", "##vso[", "##teamcity["))


def test_markdown_has_no_markup_mentions_or_escapes():
    cell = markdown(ATTACK + " @all | <img src=x> [a](b) `c` *d* _e_ a_b")
    assert "\n" not in cell
    assert "\x1b" not in cell
    assert "@all" not in cell
    assert "<img" not in cell
    assert "\\|" in cell
    assert "a_b" in cell
    assert "\\_e\\_" in cell
    assert one_line("a\n b\x1b") == "a b"
