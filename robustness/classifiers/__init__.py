"""From a section of the config to a classifier: weights loaded, or a network trained."""
