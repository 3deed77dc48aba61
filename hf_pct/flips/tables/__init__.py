"""Tables of answers: one model's predictions, in memory and as files."""
