//go:build race

package simulate

// The race detector looks for races, and makes everything ten times as slow.
var goalSeeds, nodeSeeds = []uint64{1}, []uint64{1}
