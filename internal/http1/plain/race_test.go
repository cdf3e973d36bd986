//go:build race

package plain

// raceDetector makes a sync.Pool forget some of what it is given.
const raceDetector = true
