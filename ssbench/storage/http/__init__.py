"""HTTP for the stores that speak it: connections, pools, responses, bodies."""
