"""Templates: what each piece of the notation draws."""

import random

import pytest

from hf_pct.demo.grammar import Grammar, parse


def draw_all(template: str, rules: dict[str, str] | None = None, draws: int = 300) -> set[str]:
    grammar, rng = Grammar(rules or {}), random.Random(0)
    node = parse(template)
    return {grammar.draw(node, lambda slot, rng: rng.choice(["one", "two"]), rng)[0] for _ in range(draws)}


@pytest.mark.parametrize(
    ("template", "sentences"),
    [
        ("turn on", {"turn on"}),
        ("[please] stop", {"please stop", "stop"}),
        ("turn (on|off)", {"turn on", "turn off"}),
        ("stop [the|my] timer", {"stop timer", "stop the timer", "stop my timer"}),
        ("light[s] on", {"light on", "lights on"}),
        ("5( |-)minute[s]", {"5 minute", "5-minute", "5 minutes", "5-minutes"}),
        ("[a [b]] c", {"c", "a c", "a b c"}),
        ("turn (it;off)", {"turn it off", "turn off it"}),
        ("(in here;(on|off)) now", {"in here on now", "on in here now", "in here off now", "off in here now"}),
        ("<verb> it", {"open it", "lift it", "lift up it"}),
        ("room {number:slot}", {"room one", "room two"}),
        ("which [of <the>] [<the>] lights", {"which lights", "which the lights", "which of the lights"}),
    ],
)
def test_notation(template, sentences):
    assert draw_all(template, {"verb": "(open|lift [up])", "the": "the"}) == sentences


def test_pattern_keeps_the_names_of_lists():
    text, pattern = Grammar({}).draw(
        parse("add {item} to {list:name}"), lambda slot, rng: f"my {slot}", random.Random()
    )
    assert (text, pattern) == ("add my item to my list", "add {item} to {list}")


@pytest.mark.parametrize("template", ["turn (on", "turn on)", "turn [on)", "{area", "<the", "a > b", "(a|b;c)"])
def test_broken_templates_are_shown(template):
    with pytest.raises(ValueError, match="Template '"):
        parse(template)


def test_unknown_rule():
    with pytest.raises(ValueError, match="Unknown rule <thee>; the grammar has: the"):
        draw_all("<thee> lamp", {"the": "the"})
