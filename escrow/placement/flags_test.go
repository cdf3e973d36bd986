package placement

import "flag"

var (
	wholeSearch = flag.Bool("whole", false, "search the small worlds to the end, or until there are very many states")
	tryMutants  = flag.Bool("mutants", false, "break each rule in turn, and see a test fail")
)
