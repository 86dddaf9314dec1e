"""The steps of a turn, with a folder or file for each, in the order understand, retrieve, verify, answer, decide,
agent, revise: each may import those before it, never those after it. `turn_state` is the state that they share; it
imports no step."""
