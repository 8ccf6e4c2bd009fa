"""What is decided: the aggregate and the cluster stage. Imports `schemas` only."""
