"""How an answer points to its sources: citation marks in every form that models write, the page and pictures of a
source, the mark for what is not stated, and how a computed source was made. It may import `types` and `llm`, but
no step."""
