//go:build !race

package lengths

const raceDetector = false
