"""What the assistant says in its own words and recognizes in those of others, in all its languages: phrases of
messages, refusals of models, and its translated texts. It may import `citations`; the steps and everything above
them import it."""
