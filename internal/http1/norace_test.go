//go:build !race

package http1

const raceDetector = false
