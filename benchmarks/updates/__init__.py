"""What `hf-pct update` gives on real updates, at several budgets, against plain training and the oracle."""
