//go:build race

package inprocess_test

// raceDetector makes a sync.Pool forget some of what it is given.
const raceDetector = true
