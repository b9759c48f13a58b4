"""Every command: runs, reports, comparisons and the tools of the video sets."""

import argparse


def new_parser(command: str, description: str | None) -> argparse.ArgumentParser:
  """Returns an argument parser for a command.

  Args:
    command: the words of the command, such as 'robustness report'.
    description: text of `--help`, which keeps its line breaks.
  """
  formatter = argparse.RawDescriptionHelpFormatter
  return argparse.ArgumentParser(command, description=description, formatter_class=formatter)
