"""Detectors scored on neighbor sets: mAP on anchors and on the worst frames."""
