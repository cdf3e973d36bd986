package main

import "context"

// aCase is one part of the comparison.
type aCase struct {
	name, title string
	run         func(context.Context, *bench) error
}

// cases are in the order of the page. Each adds rows to the report.
var cases = []aCase{
	{"budget", "a budget, and more calls at once than it allows", runBudgets},
	{"hog", "a hog beside a small tenant", runHog},
	{"aborts", "streams whose callers leave", runAborts},
	{"cost", "CPU of a call", runCost},
	{"latency", "latency added", runLatency},
	{"start", "start and memory", runStart},
}

func caseNames() (names []string) {
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names
}
