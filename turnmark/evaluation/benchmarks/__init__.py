"""The benchmarks of this package, each in its folder: tasks, rubrics, prompts, synthesis and published values.

A new benchmark is a folder, or a single module, with a declaration like those below, and an entry in the table here.
"""

from __future__ import annotations

from turnmark.evaluation.benchmarks import compound_qa, inscoqa, kiwi, mtrag

BENCHMARKS = (*mtrag.BENCHMARKS, *inscoqa.BENCHMARKS, *compound_qa.BENCHMARKS, *kiwi.BENCHMARKS)
SYNTHESES = (*mtrag.SYNTHESES, *inscoqa.SYNTHESES, *compound_qa.SYNTHESES)
