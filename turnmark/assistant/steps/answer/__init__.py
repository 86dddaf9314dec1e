"""Answers with a model or by quotations, and answers by rules about counts and the collection. It may import
`steps.understand`, `steps.retrieve` and `steps.verify`."""
