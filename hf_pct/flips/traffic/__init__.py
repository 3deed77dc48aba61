"""Traffic that nobody labelled: flips live only where two answers differ, so only those rows need a label."""
