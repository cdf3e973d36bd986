//go:build race

package memory

// raceDetector takes memory for each byte that a program uses.
const raceDetector = true
