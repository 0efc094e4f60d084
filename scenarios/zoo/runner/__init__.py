"""The zoo's keeper: runs programs that know nothing of tpuprof, and compares what tpuprof says with what is true."""
