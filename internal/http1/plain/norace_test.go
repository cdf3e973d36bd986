//go:build !race

package plain

const raceDetector = false
