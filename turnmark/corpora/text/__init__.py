"""Text and its languages: words, sentences and list items, function words, detection of the language, index terms.
The room imports `core` and nothing else of Turnmark."""
