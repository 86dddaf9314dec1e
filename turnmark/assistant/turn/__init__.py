"""The assistant: `Assistant.reply` runs the steps, `step_forms` names their forms, `components` opens what a
configuration names, and `reopen` follows a changed index. It may import all rooms but those that show the
assistant (`repl`, `serving`, `mcp`); forms are loaded by name."""
