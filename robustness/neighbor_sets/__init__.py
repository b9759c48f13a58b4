"""Sets of neighbouring video frames: their metadata files and predictions on them."""
