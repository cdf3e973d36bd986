//go:build !amd64

package jsonscan

// hasVectors means that plainBlocks can be called.
var hasVectors = false

func plainBlocks([]byte) (end int, escaped bool) {
	panic("llmgov: BUG: no plainBlocks for this processor")
}

func base64Blocks([]byte) (end int) {
	panic("llmgov: BUG: no base64Blocks for this processor")
}

func nestedBlocks([]byte) (end int) {
	panic("llmgov: BUG: no nestedBlocks for this processor")
}
