"""The command `robustness`: runs configs by name, lists them, checks the machine, draws again."""
