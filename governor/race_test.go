//go:build race

package governor

// raceDetector makes a sync.Pool forget some of what it is given.
const raceDetector = true
