"""Flips at every evaluation: of the kit's trainers, of any other trainer, and the choice of a checkpoint by them."""
