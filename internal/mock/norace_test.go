//go:build !race

package mock

const raceSlack = 0
