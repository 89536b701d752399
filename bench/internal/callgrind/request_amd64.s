#include "textflag.h"

// func request(call *[6]uintptr) uintptr
TEXT ·request(SB), NOSPLIT, $0-16
	MOVQ call+0(FP), AX
	XORL DX, DX // the result on a processor itself
	// The rotations add up to 128 bits, so DI is what it was.
	ROLQ $3, DI
	ROLQ $13, DI
	ROLQ $61, DI
	ROLQ $51, DI
	BYTE $0x48; BYTE $0x87; BYTE $0xDB // xchgq %rbx, %rbx
	MOVQ DX, ret+8(FP)
	RET
