"""Several new models at once: candidates against one old model, and the gate on candidates and on chains."""
