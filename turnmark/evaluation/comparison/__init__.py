"""Paired comparison of finished runs over the same samples. It may import `report`, `scores` and `storage`."""
