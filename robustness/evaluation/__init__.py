"""Rows × views → records: the study interface, the runner and what it writes."""
