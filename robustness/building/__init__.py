"""Building the classifiers of a run: what is refused before, trainings in the workdir, probes."""
