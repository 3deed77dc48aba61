"""What holds weights near the old ones, beside any loss; one file per method."""
