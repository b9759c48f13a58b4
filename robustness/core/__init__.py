"""Modules that every other module may import: errors, files, keys, progress, rows, settings."""
