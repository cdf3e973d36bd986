//go:build race

package mock

// raceSlack is how many allocations more there may be under the race detector,
// where sync.Pool forgets at random.
const raceSlack = 60
