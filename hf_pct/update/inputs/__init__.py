"""What an update is made from: rows, models, and tables of answers where a model is not available."""
