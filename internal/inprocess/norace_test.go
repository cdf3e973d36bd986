//go:build !race

package inprocess_test

const raceDetector = false
