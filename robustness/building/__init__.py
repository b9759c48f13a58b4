"""Builds the classifiers of a run: checks the config, trains networks and fits probes."""
