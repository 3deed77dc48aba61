"""What `hf-pct update` comes to on real updates, at several budgets, against plain training and the oracle."""
