"""Speed: contestants take turns in one run, and what counts is the ratio."""
