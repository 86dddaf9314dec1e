"""Agreement of metrics and judges with people, and of people with each other. It may import `report`, `scores` and
`metrics`."""
