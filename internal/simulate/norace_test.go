//go:build !race

package simulate

var goalSeeds = []uint64{1, 2}
