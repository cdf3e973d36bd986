//go:build race

package http1

// raceDetector makes a sync.Pool forget some of what it is given.
const raceDetector = true
