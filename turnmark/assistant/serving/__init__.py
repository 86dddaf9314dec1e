"""`turnmark serve`: the assistant behind an OpenAI-compatible endpoint, and a page to talk to it. It may import
`turn` and `sessions`, and `commands` for shared options."""
