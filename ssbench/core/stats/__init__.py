"""Statistics of runs: sums, histograms, time series, findings, comparisons."""
