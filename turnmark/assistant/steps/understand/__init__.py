"""The first step: is a message a courtesy, a request to revise, a question about the collection, or one or several
questions, and do they need context? It may import `steps.turn_state`, `wording`, `citations` and `llm`."""
