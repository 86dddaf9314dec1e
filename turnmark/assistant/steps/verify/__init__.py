"""Are citations real and claims supported? Support by words, numbers and names is measured here, so the answers and
the decision use it too. It may import `steps.turn_state`, `wording` and `citations`, and no other step."""
