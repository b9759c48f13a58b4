"""Scenes: a cut-out object pasted on a background, at a size, an angle and a place (SI-Score)."""
