//go:build !amd64

package jsonscan

// hasVectors means that plainBlocks can be called.
var hasVectors = false

func plainBlocks([]byte) (end int, escaped bool) {
	panic("llmgov: BUG: no plainBlocks for this processor")
}
