"""Rules for one tensor of an old and a new model; one file per rule."""
