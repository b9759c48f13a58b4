"""Every command: runs, reports, comparisons and the tools of the video sets."""

import argparse


def new_parser(command: str, description: str | None) -> argparse.ArgumentParser:
  """Returns a parser of a command's arguments.

  Args:
    command: the words of the command, such as 'robustness report'.
    description: its help, which is printed with its line breaks.
  """
  formatter = argparse.RawDescriptionHelpFormatter
  return argparse.ArgumentParser(command, description=description, formatter_class=formatter)
