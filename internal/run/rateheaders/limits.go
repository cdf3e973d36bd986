package rateheaders

import (
	"strconv"
	"sync/atomic"
)

// limit is a limit as a header shows it.
type limit struct {
	n      int64
	values [1]string
}

// limits keeps limits that were shown, because they change only with a policy or with a node's share. Of those that fall on one place it
// keeps the last.
var limits [256]atomic.Pointer[limit]

// limitValues returns the values of the header of a limit. All answers share them, so nobody may write to them.
func limitValues(n int64) []string {
	const golden = 0x9e3779b97f4a7c15 // spreads round numbers
	place := &limits[uint64(n)*golden>>56]
	l := place.Load()
	if l == nil || l.n != n {
		l = &limit{n: n, values: [1]string{strconv.FormatInt(n, 10)}}
		place.Store(l)
	}
	return l.values[:]
}
