"""`turnmark agreement`: compares scores with people's ratings, raters with each other, and judges with labels."""
