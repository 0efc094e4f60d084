"""Names of the changes that a search makes to a script from outside; read by the search and in the script's process."""

VARIABLE = "TPUPROF_PREFLIGHT_TRY"
AUTOCAST, REMAT, OFFLOAD, SCAN, SCAN_REMAT = "autocast", "remat", "remat-offload", "scan", "scan-remat"
