"""One self-contained page about a run, from its results and figures."""
