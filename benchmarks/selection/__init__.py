"""How well a rule chooses alpha: judged on curves from committed answers, its prior fitted on other data sets."""
