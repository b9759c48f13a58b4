"""Bands of frequencies as views: what studies of bandwidths share."""
