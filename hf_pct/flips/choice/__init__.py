"""Choose: which candidate, at which share of the old model, keeps a contract on accuracy and flips."""
