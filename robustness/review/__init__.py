"""Review of neighbor sets: a local web page for annotators, their answers, and what they decide."""
