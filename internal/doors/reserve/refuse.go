package reserve

import (
	"fmt"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/run/rateheaders"
)

// invalid refuses a request that is wrong by itself.
func invalid(param, format string, args ...any) *client.Refusal {
	return &client.Refusal{
		Status: http.StatusBadRequest, Code: ask.CodeInvalid, Param: param, Message: "Bad request: " + fmt.Sprintf(format, args...) + ".",
		Header: http.Header{},
	}
}

// unknown refuses an id that the caller has no reservation by.
func unknown(id string) *client.Refusal {
	return &client.Refusal{
		Status: http.StatusNotFound, Code: ask.CodeNotFound, Param: "reservation_id", Header: http.Header{},
		Message: fmt.Sprintf("There is no reservation %.200q of yours. It may have ended more than %s ago, or be at another gateway: send all calls of a reservation to the one that made it.", id, remembered),
	}
}

// ended refuses to renew a reservation that has ended.
func ended(id string) *client.Refusal {
	return &client.Refusal{
		Status: http.StatusConflict, Code: ask.CodeNotFound, Param: "reservation_id", Header: http.Header{},
		Message: fmt.Sprintf("Reservation %s has ended. Commit what the call took all the same: it is counted.", id),
	}
}

// running refuses a Reserve while another one by the same id waits.
func running(id string) *client.Refusal {
	r := &client.Refusal{
		Status: http.StatusConflict, Code: ask.CodeRunning, Param: "reservation_id", RetryAfter: time.Second,
		Message: fmt.Sprintf("Reservation %s is being made. Please try again in 1s.", id),
	}
	return comeBack(r)
}

// fullLocked refuses a tenant that has as many reservations as there are places left.
func (b *Book) fullLocked(tenant string, free int) *client.Refusal {
	r := &client.Refusal{Status: http.StatusTooManyRequests, Code: ask.CodeRate, Kind: "concurrency", RetryAfter: b.nextEndLocked(tenant)}
	if free == 0 {
		r.Status = http.StatusServiceUnavailable
		r.Code = ask.CodeOverloaded
		r.Kind = ""
	}
	r.Message = fmt.Sprintf("Tenant %s has %d open reservations, and there is room for %d more of all tenants together. Commit or cancel those that have ended.",
		tenant, b.byTenant[tenant], free)
	return comeBack(r)
}

// looks is how many reservations are looked at to find out when one ends. They are thousands, and it is asked by those
// of which there are too many.
const looks = 64

// nextEndLocked is about when the first ttl of a tenant's reservations ends, if nothing is heard of them.
func (b *Book) nextEndLocked(tenant string) time.Duration {
	least := defaultTTL
	now := time.Now()
	looked := 0
	for _, r := range b.all {
		looked++
		if looked > looks {
			break
		}
		if r.lease != nil && r.tenant == tenant {
			least = min(least, r.until.Sub(now))
		}
	}
	return max(least, time.Second)
}

// comeBack shows when to come back in the headers, too.
func comeBack(r *client.Refusal) *client.Refusal {
	r.Header = http.Header{}
	rateheaders.Retry(r.Header, r.Status, r.RetryAfter, r.Final)
	return r
}
