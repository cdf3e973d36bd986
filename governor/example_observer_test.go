package governor_test

import (
	"context"
	"log/slog"
	"os"

	"github.com/llmgov/llmgov/governor"
)

// logged writes what the governor decides to a log. Observe is called while a call waits for its answer: what takes longer belongs in a
// goroutine of its own.
type logged struct{ log *slog.Logger }

func (l logged) Observe(ev governor.Event) {
	switch ev.Kind {
	case governor.EventAdmitted:
		l.log.Info("admitted", "tenant", ev.Request.Tenant, "pool", ev.Request.Pool)
	case governor.EventRefused:
		l.log.Warn("refused", "tenant", ev.Request.Tenant, "why", ev.Refused.Reason.String(), "limit", ev.Refused.Limit)
	case governor.EventEnded:
		l.log.Info("ended", "tenant", ev.Request.Tenant, "how", ev.Ending.String(), "input", ev.Usage.Input, "output", ev.Usage.Output)
	}
}

// An Observer writes all decisions to a log.
func ExampleObserver() {
	withoutTime := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	gov, err := governor.New(governor.Config{
		Pools:    []governor.Pool{{Name: "gpt-4o", TPM: 300_000, MaxQueue: 100}},
		Tenants:  []governor.Tenant{{Name: "acme", RPM: 1}},
		Observer: logged{slog.New(slog.NewTextHandler(os.Stdout, withoutTime))},
	})
	if err != nil {
		panic(err)
	}
	for range 2 {
		lease, err := gov.Acquire(context.Background(), governor.Request{Tenant: "acme", Pool: "gpt-4o", Input: 900, Output: 300})
		if err != nil {
			continue
		}
		lease.Settle(governor.Usage{Input: 880, Output: 120})
	}
	// Output:
	// level=INFO msg=admitted tenant=acme pool=gpt-4o
	// level=INFO msg=ended tenant=acme how=settled input=880 output=120
	// level=WARN msg=refused tenant=acme why=requests limit=1
}
