"""`turnmark mcp`: indexes as tools and resources of the Model Context Protocol, for other assistants. It may import
`serving`, `citations` and `steps`."""
