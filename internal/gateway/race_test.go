//go:build race

package gateway

// raceDetector makes a sync.Pool forget some of what it is given.
const raceDetector = true
