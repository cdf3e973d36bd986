#include "textflag.h"

// A byte's classes are those of its low four bits that are also classes of its high four bits:
//
//	0x01  a control character, or beyond ASCII        high 0, 1, 8 to 15
//	0x02  a quote                                     high 2, low 2
//	0x04  a bracket of an array or object             high 5, 7, low 11, 13
//	0x08  a quote or a slash                          high 2, low 2, 15
//	0x10  b, f or n                                   high 6, low 2, 6, 14
//	0x20  r or t                                      high 7, low 2, 4
//	0x80  a backslash                                 high 5, low 12
DATA low<>+0(SB)/8, $0x01110121013b0101
DATA low<>+8(SB)/8, $0x0911058105010101
GLOBL low<>(SB), RODATA|NOPTR, $16

DATA high<>+0(SB)/8, $0x24108400000a0101
DATA high<>+8(SB)/8, $0x0101010101010101
GLOBL high<>(SB), RODATA|NOPTR, $16

DATA nibbles<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL nibbles<>(SB), RODATA|NOPTR, $8

// The classes of bytes that stop the scan unless they are escaped, and of those that a backslash may escape.
DATA stops<>+0(SB)/8, $0x0303030303030303
GLOBL stops<>(SB), RODATA|NOPTR, $8
DATA letters<>+0(SB)/8, $0xb8b8b8b8b8b8b8b8
GLOBL letters<>(SB), RODATA|NOPTR, $8

// CLASSES makes of the 64 bytes at SI+AX their classes, in Y0 and Y1: those of Y10 for their low nibbles that are also those of
// Y11 for their high ones. Y12 is 0x0f in each byte.
#define CLASSES \
	VMOVDQU (SI)(AX*1), Y0; \
	VMOVDQU 32(SI)(AX*1), Y1; \
	VPSRLW $4, Y0, Y2; \
	VPSRLW $4, Y1, Y3; \
	VPAND Y12, Y0, Y0; \
	VPAND Y12, Y1, Y1; \
	VPAND Y12, Y2, Y2; \
	VPAND Y12, Y3, Y3; \
	VPSHUFB Y0, Y10, Y0; \
	VPSHUFB Y1, Y10, Y1; \
	VPSHUFB Y2, Y11, Y2; \
	VPSHUFB Y3, Y11, Y3; \
	VPAND Y2, Y0, Y0; \
	VPAND Y3, Y1, Y1

// func plainBlocks(text []byte) (end int, escaped bool)
TEXT ·plainBlocks(SB), NOSPLIT, $0-33
	MOVQ text_base+0(FP), SI
	MOVQ text_len+8(FP), CX
	VBROADCASTI128 low<>(SB), Y10
	VBROADCASTI128 high<>(SB), Y11
	VPBROADCASTQ nibbles<>(SB), Y12
	VPBROADCASTQ stops<>(SB), Y13
	VPBROADCASTQ letters<>(SB), Y14
	VPXOR Y15, Y15, Y15
	MOVQ $0xaaaaaaaaaaaaaaaa, DI // every other bit
	XORL AX, AX                  // AX is the index of the block
	XORL DX, DX                  // DX has a bit if there was a backslash
	XORL R11, R11                // R11 is 1 if the block's first byte is escaped
	JMP  next

block:
	// Y0 and Y1 are the classes of 64 bytes.
	CLASSES

	// R8 has a bit for each backslash.
	VPMOVMSKB Y0, R8
	VPMOVMSKB Y1, R9
	SHLQ      $32, R9
	ORQ       R9, R8

	// R10 has a bit for each byte that does not stop the scan.
	VPAND     Y13, Y0, Y2
	VPAND     Y13, Y1, Y3
	VPCMPEQB  Y15, Y2, Y2
	VPCMPEQB  Y15, Y3, Y3
	VPMOVMSKB Y2, R10
	VPMOVMSKB Y3, R12
	SHLQ      $32, R12
	ORQ       R12, R10

	// R13 has a bit for each byte that no backslash may escape.
	VPAND     Y14, Y0, Y2
	VPAND     Y14, Y1, Y3
	VPCMPEQB  Y15, Y2, Y2
	VPCMPEQB  Y15, Y3, Y3
	VPMOVMSKB Y2, R13
	VPMOVMSKB Y3, BX
	SHLQ      $32, BX
	ORQ       BX, R13

	// R9 has a bit for each escaped byte. A subtraction turns runs of backslashes over: the borrow ends behind the run,
	// at an odd or an even bit. What it leaves in a run are the backslashes that escape; R11 is the last of them.
	MOVQ R11, R9
	NOTQ R9
	ANDQ R8, R9
	LEAQ (R9)(R9*1), R12
	ORQ  DI, R12
	SUBQ R9, R12
	XORQ DI, R12
	MOVQ R8, R9
	ORQ  R11, R9
	XORQ R12, R9
	MOVQ R12, R11
	ANDQ R8, R11
	SHRQ $63, R11

	// R13 and R10 together are the bytes at which the scan stops.
	ANDQ R9, R13
	ORQ  R9, R10
	NOTQ R10
	ORQ  R13, R10
	JNZ  found
	ORQ  R8, DX
	ADDQ $64, AX

next:
	LEAQ 64(AX), BX
	CMPQ BX, CX
	JLS  block
	SUBQ R11, AX // An escape at the end is left whole.
	JMP  done

found:
	// BX is the first of the bits. If its byte is escaped, the escape begins one byte before.
	MOVQ R10, BX
	NEGQ BX
	ANDQ R10, BX
	LEAQ -1(BX), R12
	ANDQ R8, R12
	ORQ  R12, DX
	BSFQ R10, R10
	ADDQ R10, AX
	ANDQ R9, BX
	NEGQ BX
	SBBQ $0, AX

done:
	VZEROUPPER
	TESTQ DX, DX
	SETNE escaped+32(FP)
	MOVQ  AX, end+24(FP)
	RET

// A byte of base64 is in a class of its high four bits and of its low four bits:
//
//	0x01  +, /              high 2, low 11, 15
//	0x02  0 to 9, =         high 3, low 0 to 9, 13
//	0x04  A to O, a to o    high 4, 6, low 1 to 15
//	0x08  P to Z, \         high 5, low 0 to 10, 12
//	0x10  p to z            high 7, low 0 to 10
DATA base64low<>+0(SB)/8, $0x1e1e1e1e1e1e1e1a
DATA base64low<>+8(SB)/8, $0x0504060c051c1e1e
GLOBL base64low<>(SB), RODATA|NOPTR, $16

DATA base64high<>+0(SB)/8, $0x1004080402010000
DATA base64high<>+8(SB)/8, $0x0000000000000000
GLOBL base64high<>(SB), RODATA|NOPTR, $16

// func base64Blocks(text []byte) (end int)
TEXT ·base64Blocks(SB), NOSPLIT, $0-32
	MOVQ text_base+0(FP), SI
	MOVQ text_len+8(FP), CX
	VBROADCASTI128 base64low<>(SB), Y10
	VBROADCASTI128 base64high<>(SB), Y11
	VPBROADCASTQ nibbles<>(SB), Y12
	VPXOR Y15, Y15, Y15
	XORL AX, AX // AX is the index of the block
	JMP  next

block:
	// Y0 and Y1 are the classes of 64 bytes, and R8 is not 0 if one of them has none.
	CLASSES
	VPMINUB   Y1, Y0, Y0
	VPCMPEQB  Y15, Y0, Y0
	VPMOVMSKB Y0, R8
	TESTL     R8, R8
	JNZ       done
	ADDQ      $64, AX

next:
	LEAQ 64(AX), BX
	CMPQ BX, CX
	JLS  block

done:
	VZEROUPPER
	MOVQ AX, end+24(FP)
	RET

DATA nested<>+0(SB)/8, $0x0606060606060606
GLOBL nested<>(SB), RODATA|NOPTR, $8

// func nestedBlocks(text []byte) (end int)
TEXT ·nestedBlocks(SB), NOSPLIT, $0-32
	MOVQ text_base+0(FP), SI
	MOVQ text_len+8(FP), CX
	VBROADCASTI128 low<>(SB), Y10
	VBROADCASTI128 high<>(SB), Y11
	VPBROADCASTQ nibbles<>(SB), Y12
	VPBROADCASTQ nested<>(SB), Y13
	XORL AX, AX // AX is the index of the block
	JMP  next

block:
	// Y0 and Y1 are the classes of 64 bytes.
	CLASSES
	VPOR   Y1, Y0, Y0
	VPTEST Y13, Y0
	JNZ    done
	ADDQ   $64, AX

next:
	LEAQ 64(AX), BX
	CMPQ BX, CX
	JLS  block

done:
	VZEROUPPER
	MOVQ AX, end+24(FP)
	RET
