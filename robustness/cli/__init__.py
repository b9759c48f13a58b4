"""Every command: runs, reports, comparisons and the tools of the video sets."""

import argparse


def new_parser(command: str, description: str | None) -> argparse.ArgumentParser:
  """Returns a parser of a command's arguments, whose help has the description as it is written."""
  formatter = argparse.RawDescriptionHelpFormatter
  return argparse.ArgumentParser(command, description=description, formatter_class=formatter)
