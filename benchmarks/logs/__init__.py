"""Real logs of other tools, and what comparing them shows."""
