"""The batch job around the checker: lock, scan, pool, ledger, projections."""
