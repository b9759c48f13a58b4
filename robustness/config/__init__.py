"""The checked experiment and the command line."""
