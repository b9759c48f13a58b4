"""From records to one table of results: statistics, groups by facets, estimates with intervals."""
