"""The examples of public names that need a Hub, run as they stand against the loopback Hub."""

import doctest
import shutil

import pytest

from hf_pct.hub.client.access import check_write_access
from hf_pct.hub.publish import push_update
from hf_pct.hub.verify import verify


def code(value) -> str:
    """The lines of an example, in order."""
    examples = doctest.DocTestParser().get_examples(value.__doc__)
    assert examples
    return "".join(example.source.replace("  # doctest: +SKIP", "") for example in examples)


@pytest.mark.usefixtures("hub")
def test_publishing_and_verifying_as_the_docstrings_do(client, update, tmp_path):
    shutil.copytree(update.new, tmp_path / "v2")
    shutil.copy(update.report, tmp_path / "report.json")
    lines = [code(value).replace("my-org", "org") for value in (check_write_access, push_update)]
    holds = code(verify).replace("my-org", "org").rstrip().rpartition("\n")
    script = "\n".join(["import os", "os.chdir(a.folder)", *lines, holds[0], f"assert {holds[2]}"])
    client.run(script, folder=tmp_path)
