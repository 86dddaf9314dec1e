"""Metrics that compare texts and condition scores on refusals, without a model and without a task. It may import
`storage` and `records`."""
