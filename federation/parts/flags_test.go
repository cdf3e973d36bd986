package parts

import "flag"

var (
	worlds     = flag.Int("worlds", 40, "how many worlds to simulate")
	tryMutants = flag.Bool("mutants", false, "break each rule in turn, and see a test fail")
)
