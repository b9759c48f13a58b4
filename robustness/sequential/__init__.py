"""Sequential designs: views shown in rounds until the intervals of their errors are narrow."""
