package jsonscan

import "golang.org/x/sys/cpu"

// hasVectors means that the processor can compare 32 bytes by one instruction.
var hasVectors = cpu.X86.HasAVX2

// plainBlocks does what plainEnd does, for as many whole blocks of vectorBlock bytes as text has. Behind the last of
// them it stops; before that only where plainEnd would.
//
// It looks at all bytes of a block together, and knows which are escaped by simdjson's arithmetic on bits ("Parsing
// Gigabytes of JSON per Second", Langdale and Lemire, 2019). So escapes cost nothing, because no branch depends on
// where they are.
//
//go:noescape
func plainBlocks(text []byte) (end int, escaped bool)

// base64Blocks is the index of the first block of vectorBlock bytes that is not all of base64, or of what is left at the
// end.
//
//go:noescape
func base64Blocks(text []byte) (end int)

// nestedBlocks is the index of the first block of vectorBlock bytes with a bracket or a quote, or of what is left at the end.
//
//go:noescape
func nestedBlocks(text []byte) (end int)
