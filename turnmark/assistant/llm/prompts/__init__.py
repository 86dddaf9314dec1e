"""What a model is told, and its replies as values of a schema: prompt files, conversations and passages within a
model's context, definitions of tools, and structured output. It may import `llm.calls`."""
