"""`turnmark agreement`: scores against people, people against each other, judges against labels."""
