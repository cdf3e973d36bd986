//go:build !race

package governor

const raceDetector = false
