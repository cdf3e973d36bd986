package load

import "net/http"

// enoughUnauthorized is the number of answers after which a run stops if each of them is a 401.
const enoughUnauthorized = 10

// keyCheck finds out whether all keys are wrong, or only some.
type keyCheck struct {
	answers, unauthorized int64
	waiting               map[int]bool // tenants with calls, true while none has been answered
}

// sent records a call of a tenant.
func (k *keyCheck) sent(tenant int) {
	if k.waiting == nil {
		k.waiting = map[int]bool{}
	}
	if _, known := k.waiting[tenant]; !known {
		k.waiting[tenant] = true
	}
}

// answered records the status of an answer; 0 is none.
func (k *keyCheck) answered(tenant, status int) {
	if status == 0 {
		return
	}
	k.waiting[tenant] = false
	k.answers++
	if status == http.StatusUnauthorized {
		k.unauthorized++
	}
}

// all is the number of answers if each was a 401, else 0.
func (k *keyCheck) all() int64 {
	if k.unauthorized < k.answers {
		return 0
	}
	return k.unauthorized
}

// hopeless reports whether every key is wrong, so that there is nothing to measure.
func (k *keyCheck) hopeless() bool {
	if k.all() < enoughUnauthorized {
		return false
	}
	for _, waiting := range k.waiting {
		if waiting {
			return false
		}
	}
	return true
}
