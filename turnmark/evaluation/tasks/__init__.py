"""What a benchmark consists of: `Task`, `Item`, `Metric`, `Rubric`, the declarations and the registry of benchmarks,
and the request of `eval` and `score`. A benchmark of a third party imports only from here. It may import `scores`,
`metrics`, `prompts` and `storage`."""
