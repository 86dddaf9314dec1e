"""Conversations as events, their files, and exports of them. It may import `citations`, `wording` and `llm`, but
neither steps nor the assistant."""
