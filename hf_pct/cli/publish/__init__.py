"""Commands that publish an update on the Hub, and check what is published.

The token comes from `hf auth login` or HF_TOKEN and is no option: command lines are seen by others and kept in
histories.
"""
