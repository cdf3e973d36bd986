//go:build !race

package simulate

var (
	goalSeeds = []uint64{1, 2}
	nodeSeeds []uint64 // those of the scenario
)
