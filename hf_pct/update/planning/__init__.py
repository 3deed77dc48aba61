"""Before anything is trained: which recipes a case has, which of them a budget buys, what they cost, what is wrong."""
