"""CReSP (Mathieu et al. 2021) on stochastic processes that are drawn afresh for every view, at reduced sizes."""
