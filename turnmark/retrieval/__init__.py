"""Passages are indexed and found. Rooms, lowest first: `embedding`, `ranking`, `storage`, `tables`, `search`,
`services`, `index`. Beside them stand `collection`, `types` and `commands`. Imports `core` and `corpora` only."""
