"""A reader that stops reading (`| head`) is no error."""

import subprocess
import sys


def test_a_closed_pipe_is_silent():
    reader = subprocess.Popen(
        [sys.executable, "-m", "hf_pct", "env"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    reader.stdout.close()
    assert reader.stderr.read() == ""
    reader.stderr.close()
    assert reader.wait() == 141
