"""The studies, one per file; the file's name is the value of `config.study.name`."""
