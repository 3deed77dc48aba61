"""A small cut of the attack on the command line; `make test-attack` runs all of it."""

from benchmarks.attack.__main__ import attack


def test_damaged_files_end_in_a_message_and_never_in_a_greener_verdict():
    findings = attack(250, seed=1)
    assert findings.problems == []
    assert sum(codes.total() for codes in findings.codes.values()) >= 240
