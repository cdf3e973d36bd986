package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/events"
	"github.com/llmgov/llmgov/tenants"
)

const (
	// heartbeatEvery keeps proxies from taking a quiet stream for a dead one.
	heartbeatEvery = 15 * time.Second
	// eventPatience is the time that a reader has to read events.
	eventPatience = 30 * time.Second
	// eventsAtOnce is the number of events that are copied under the ring's lock at a time.
	eventsAtOnce = 64
	// eventsRetry is the pause of browsers before they reconnect.
	eventsRetry = 2 * time.Second
)

// eventBoot distinguishes this process's event numbers from those of other processes.
var eventBoot = strconv.FormatInt(time.Now().UnixMilli(), 36)

// eventFilter selects events for a reader; an empty list selects all.
type eventFilter struct {
	tenants, pools []string
	kinds          map[string]bool // by their names; nil wants all
}

// readEventFilter reads the query. A name may occur several times, and may have several values
// separated by commas.
func (a *API) readEventFilter(query url.Values) (eventFilter, error) {
	var f eventFilter
	snap := a.gateway.Snapshot()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, value := range strings.Split(strings.Join(query[name], ","), ",") {
			switch name {
			case "tenant":
				if _, ok := snap.TenantByName(value); !ok {
					return f, tenantNotFound(value)
				}
				f.tenants = append(f.tenants, value)
			case "pool":
				if !hasPool(snap, value) {
					return f, poolNotFound(value)
				}
				f.pools = append(f.pools, value)
			case "kind":
				if !eventKinds[value] {
					return f, adminapi.BadRequest("kind must be admitted, refused, failed, ended, reloaded, throttled or budget, not " + strconv.Quote(text.Brief(value)) + ".")
				}
				if f.kinds == nil {
					f.kinds = map[string]bool{}
				}
				f.kinds[value] = true
			default:
				return f, adminapi.BadRequest("There is no parameter " + strconv.Quote(text.Brief(name)) + "; there are tenant, pool and kind.")
			}
		}
	}
	return f, nil
}

// eventKinds are the names of all kinds.
var eventKinds = func() map[string]bool {
	names := map[string]bool{events.KindFailed: true, events.KindBudget: true}
	for k := governor.EventKind(1); int(k) < governor.NumEventKinds; k++ {
		names[k.String()] = true
	}
	return names
}()

func tenantNotFound(name string) error {
	return &adminapi.Fault{Status: http.StatusNotFound, Code: "tenant_not_found", Message: "There is no tenant " + strconv.Quote(text.Brief(name)) + " in the policy. GET /api/v1/tenants lists all."}
}

func poolNotFound(name string) error {
	return &adminapi.Fault{Status: http.StatusNotFound, Code: "pool_not_found", Message: "There is no pool " + strconv.Quote(text.Brief(name)) + ". GET /api/v1/snapshot lists all."}
}

func hasPool(snap *tenants.Snapshot, name string) bool {
	return slices.ContainsFunc(snap.Pools(), func(p tenants.Pool) bool { return p.Name == name })
}

// wants reports whether the reader wants an event. A tenant's teams count as the tenant; an event
// that concerns everybody, such as a reload, counts for every tenant and pool.
func (f *eventFilter) wants(e *events.Event) bool {
	if f.kinds != nil && !f.kinds[e.Kind()] {
		return false
	}
	of := func(name string) bool {
		return e.Request.Tenant == name || strings.HasPrefix(e.Request.Tenant, name+"/")
	}
	return (len(f.tenants) == 0 || e.Request.Tenant == "" || slices.ContainsFunc(f.tenants, of)) &&
		(len(f.pools) == 0 || e.Request.Pool == "" || slices.Contains(f.pools, e.Request.Pool))
}

// followEvents answers GET /api/v1/events with a stream that ends when the reader goes away, or
// when Options.Closing is closed.
func (a *API) followEvents(w http.ResponseWriter, r *http.Request) error {
	filter, err := a.readEventFilter(r.URL.Query())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-a.Closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	from, foreign := a.resumeAt(r.Header.Get("Last-Event-ID"))
	reader := a.Events.Follow(from)
	defer reader.Close()
	s := eventStream{refusal: a.gateway.Refusal, w: w, control: http.NewResponseController(w)}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	s.printf("retry: %d\n\n", eventsRetry.Milliseconds())
	if foreign {
		s.lost(nil)
	}
	s.send()
	buf := make([]events.Event, 0, eventsAtOnce)
	for s.err == nil && ctx.Err() == nil {
		quiet, stop := context.WithTimeout(ctx, heartbeatEvery)
		list, lost := reader.Read(quiet, buf)
		stop()
		if lost > 0 {
			s.lost(&lost)
		}
		for i := range list {
			if filter.wants(&list[i]) {
				s.event(&list[i])
			}
		}
		if len(list) == 0 && ctx.Err() == nil {
			s.printf(": still here\n\n")
		}
		s.send()
	}
	return nil
}

// resumeAt is the first event for a reader whose last event had this id: the next one or, if the id
// is from another process (foreign), the oldest there is. A reader without an id begins with the
// next event to come.
func (a *API) resumeAt(id string) (from uint64, foreign bool) {
	boot, number, ok := strings.Cut(id, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	next := a.Events.Next()
	switch {
	case id == "":
		return next, false
	case !ok || err != nil || boot != eventBoot || n >= next:
		return 1, true
	}
	return n + 1, false
}

// eventStream writes server-sent events; after an error it writes nothing more.
type eventStream struct {
	refusal func(string, *governor.Refusal) *adminapi.Refusal
	w       http.ResponseWriter
	control *http.ResponseController
	buf     []byte
	err     error
}

func (s *eventStream) printf(format string, args ...any) { s.buf = fmt.Appendf(s.buf, format, args...) }

// lost sends the number of events that were overwritten before they were read; nil is unknown.
func (s *eventStream) lost(n *uint64) {
	data, _ := json.Marshal(map[string]*uint64{"lost": n})
	s.printf("event: lost\ndata: %s\n\n", data)
}

func (s *eventStream) event(e *events.Event) {
	data, err := json.Marshal(viewEvent(e, s.refusal))
	if err != nil {
		panic("llmgov: BUG: an event cannot be encoded: " + err.Error())
	}
	s.printf("id: %s-%d\nevent: %s\ndata: %s\n\n", eventBoot, e.Seq, e.Kind(), data)
}

// send writes the buffer, within eventPatience.
func (s *eventStream) send() {
	if s.err != nil || len(s.buf) == 0 {
		return
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(eventPatience))
	_, s.err = s.w.Write(s.buf)
	if s.err == nil {
		s.err = s.control.Flush()
	}
	s.buf = s.buf[:0]
}
