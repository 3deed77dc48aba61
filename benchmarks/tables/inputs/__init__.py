"""What the cells of the tables are made from: data, models and pretrained weights."""
