"""Settings of the assistant, compared by its replies to a person's own questions: `turnmark tune --try`."""
