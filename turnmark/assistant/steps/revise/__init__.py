"""Changes of the last answer as a message instructs, by rules or with a model. It may import every other step."""
