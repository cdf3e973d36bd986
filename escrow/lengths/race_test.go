//go:build race

package lengths

// raceDetector makes long tests shorter.
const raceDetector = true
