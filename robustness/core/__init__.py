"""What every module may import: errors, files, keys, progress, rows, settings."""
