//go:build !race

package logging

const raceDetector = false
