//go:build race

package simulate

// The race detector looks for races, and makes everything ten times as slow.
var goalSeeds = []uint64{1}
