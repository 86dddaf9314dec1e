"""`turnmark compare`: finished runs over the same samples, set against each other."""
