"""What runs the methods that hold weights near the old ones: penalties on gradients, steps after the optimizer's."""
