"""Pictures for print."""
