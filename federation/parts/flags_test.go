package parts

import "flag"

var (
	worlds      = flag.Int("worlds", 20, "how many worlds to simulate")
	wholeSearch = flag.Bool("whole", false, "search the small worlds to the end, or until there are very many states")
	tryMutants  = flag.Bool("mutants", false, "break each rule in turn, and see a test fail")
)
