package limits

import (
	"slices"
	"time"
)

// leaving lists the usage of others of a limit over time, oldest first, by when this process heard of it.
// It leaves the limit in the same order.
type leaving []heard

// heard is by how much the use of others had grown.
type heard struct {
	since, at time.Time // when it began to, and by when all of it was used
	amount    int64
}

// NewsTravel bounds how long use at another process is known to the store and not here, or has left there and is not known to have.
const NewsTravel = 3 * time.Second

// hear records how much others use now of a limit that counts use for so long. News within a sixtieth of that are merged.
func (l *leaving) hear(now time.Time, used int64, length time.Duration) {
	list := *l
	for len(list) > 0 && now.Sub(list[0].at) > length+NewsTravel {
		list = slices.Delete(list, 0, 1)
	}
	for _, h := range list {
		used -= h.amount
	}
	for ; used < 0 && len(list) > 0; list = slices.Delete(list, 0, 1) {
		list[0].amount += used
		if list[0].amount > 0 {
			break
		}
		used = list[0].amount
	}
	switch n := len(list); {
	case used <= 0:
	case n > 0 && now.Sub(list[n-1].since) < length/60:
		list[n-1].amount += used
		list[n-1].at = now
	default:
		list = append(list, heard{now, now, used})
	}
	*l = list
}
