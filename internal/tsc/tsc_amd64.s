#include "textflag.h"

// func readUnordered() uint64
TEXT ·readUnordered(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func readOrdered() uint64
TEXT ·readOrdered(SB), NOSPLIT, $0-8
	LFENCE // without it, RDTSC may run ahead of the loads before it
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET
