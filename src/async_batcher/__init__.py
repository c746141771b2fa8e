"""Turn many concurrent awaits into few bulk calls."""
