// The interpreter that fused programs are checked against, shared with tests/programs.
#include "programs/oracle.cpp"
