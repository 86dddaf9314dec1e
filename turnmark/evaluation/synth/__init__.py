"""Synthesis of benchmark items from documents: attempts, filters, the folder of a set, and its review by people. It
may import `runs` and `report`, and knows no benchmark."""
