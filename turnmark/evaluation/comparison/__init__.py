"""`turnmark compare`: the comparison of finished runs over the same samples."""
