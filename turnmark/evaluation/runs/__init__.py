"""A run of a benchmark: request, plan, answers, scores, summary, report. `benchmark_run` shows the whole on one page.
It may import `judging`, `report`, `tasks` and everything below, and knows neither the command line nor a
benchmark."""
