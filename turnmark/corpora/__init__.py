"""Read documents and benchmark data. This is the lowest layer: it imports nothing from the other packages."""
