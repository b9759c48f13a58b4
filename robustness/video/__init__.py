"""Neighbor sets of video frames: built, read, reviewed, scored, and detection on them."""
