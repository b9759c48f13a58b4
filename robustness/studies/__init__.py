"""The studies, one a file: `config.study.name` is the module's name."""
