package load

import "net/http"

// enoughUnauthorized is after how many answers a run stops, if each of them is a 401.
const enoughUnauthorized = 10

// keyCheck tells keys that are all wrong from one that is wrong among others.
type keyCheck struct {
	answers, unauthorized int64
	waiting               map[int]bool // tenants that were sent calls, and whether there was no answer to them yet
}

// sent notes that a call of a tenant goes out.
func (k *keyCheck) sent(tenant int) {
	if k.waiting == nil {
		k.waiting = map[int]bool{}
	}
	if _, known := k.waiting[tenant]; !known {
		k.waiting[tenant] = true
	}
}

// answered notes the status of an answer; 0 is none.
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

// all is how many answers there were, if each was a 401; else 0.
func (k *keyCheck) all() int64 {
	if k.unauthorized < k.answers {
		return 0
	}
	return k.unauthorized
}

// hopeless reports whether there is nothing to be measured with these keys.
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
