"""Replies become scores, reports and comparisons: `turnmark eval`, `score`, `report`, `compare`, `agreement`, `synth`
and `check`, and the same in Python (`api`). It may import every other package of Turnmark. `api`, `commands` and
`report_commands` are its faces: nothing below imports them."""
