package ratelimit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/doors/envoy/ratelimit"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/doors/reserve"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

type world struct {
	t   *testing.T
	gov *governor.Governor
	s   *ratelimit.Service
}

// newWorld has a tenant acme with a limit of 1,000 tokens a minute.
func newWorld(t *testing.T) *world {
	t.Helper()
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "openai", BaseURL: "https://api.openai.com/v1"}}
	pool := tenants.DefaultPool("gpt")
	pool.Models = []string{"gpt-*"}
	pool.TPM = 600_000
	cfg.Pools = []tenants.Pool{pool}
	acme := tenants.Tenant{Name: "acme", Limits: terms.Limits{TPM: 1000}, Keys: []tenants.Key{{Hash: tenants.HashKey("sk-acme")}}, Models: []string{"gpt-4o"}, Routes: tenants.RouteInference}
	acme.Members = &tenants.Members{By: tenants.MemberBy{Source: tenants.ByUser}, Each: tenants.MemberLimits{Weight: 1}, Override: map[string]tenants.MemberLimits{"bob": {Weight: 1, Blocked: "rpm"}}}
	ctl := admissiontest.Build(t, cfg, acme)
	book := reserve.New(reserve.Options{Door: inprocess.New(ctl), Tenant: ctl.TenantOf, Most: 4})
	t.Cleanup(book.Close)
	names, ok := ratelimit.ParseNames("tenant=team")
	if !ok {
		t.Fatal("the names cannot be read")
	}
	return &world{t, ctl.Governor(), ratelimit.New(ratelimit.Options{Names: names, Book: book, Admission: ctl})}
}

// used are acme's tokens of this minute, held ones included.
func (w *world) used() int64 {
	q := w.gov.Standing("acme", "gpt").Tokens
	return q.Limit - q.Remaining
}

// ask sends descriptors, each as "key=value key=value hits".
func (w *world) ask(descriptors ...string) (*pb.RateLimitResponse, error) {
	req := &pb.RateLimitRequest{Domain: "llmgov"}
	for _, text := range descriptors {
		d := new(commonv3.RateLimitDescriptor)
		for _, f := range strings.Fields(text) {
			key, value, is := strings.Cut(f, "=")
			if is {
				d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
				continue
			}
			var hits uint64
			testkit.Must(fmt.Sscan(f, &hits))(w.t)
			d.HitsAddend = wrapperspb.UInt64(hits)
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	return w.s.ShouldRateLimit(w.t.Context(), req)
}

// begin reserves, and returns the id.
func (w *world) begin(descriptors ...string) string {
	w.t.Helper()
	r, err := w.ask(descriptors...)
	if err != nil || r.OverallCode != pb.RateLimitResponse_OK || len(r.RequestHeadersToAdd) != 1 {
		w.t.Fatalf("%v: %v", r, err)
	}
	return r.RequestHeadersToAdd[0].Value
}

// A call is charged by what its end says.
func TestShouldRateLimit_Charges(t *testing.T) {
	const call = "team=acme model=gpt-4o"
	for name, c := range map[string]struct {
		end  []string // %s is the id
		want int64
	}{
		"whole":              {[]string{"llmgov_lease=%s llmgov_count=status 200", "llmgov_lease=%s llmgov_count=input 50", "llmgov_lease=%s llmgov_count=output 5"}, 55},
		"a total alone":      {[]string{"llmgov_lease=%s llmgov_count=total 70"}, 70},
		"total and input":    {[]string{"llmgov_lease=%s llmgov_count=total 70", "llmgov_lease=%s llmgov_count=input 50"}, 70},
		"an error":           {[]string{"llmgov_lease=%s llmgov_count=status 503"}, 0},
		"the caller left":    {[]string{"llmgov_lease=%s llmgov_count=status 0"}, 100},
		"no word of tokens":  {[]string{"llmgov_lease=%s llmgov_count=status 200"}, 100},
		"twice the same":     {[]string{"llmgov_lease=%s llmgov_count=total 70", "llmgov_lease=%s llmgov_count=total 70"}, 70},
		"a header of others": {[]string{"llmgov_lease=forged,%s llmgov_count=total 70"}, 70},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.begin(call, "llmgov_count=input 60", "llmgov_count=output 40")
			if got := w.used(); got != 100 {
				t.Fatalf("%d tokens are held, 100 is right", got)
			}
			var end []string
			for _, d := range c.end {
				end = append(end, fmt.Sprintf(d, id))
			}
			if r, err := w.ask(end...); err != nil || r.OverallCode != pb.RateLimitResponse_OK {
				t.Errorf("%v: %v", r, err)
			}
			if got := w.used(); got != c.want {
				t.Errorf("charged %d tokens, %d is right", got, c.want)
			}
			if n, _ := w.gov.Leases(); n != 0 {
				t.Errorf("%d leases are left", n)
			}
		})
	}
}

// A refusal has the body and the headers of the gateway's.
func TestShouldRateLimit_Refuses(t *testing.T) {
	w := newWorld(t)
	w.begin("key=sk-acme model=gpt-4o", "llmgov_count=output 900")
	r, err := w.ask("key=sk-acme model=gpt-4o", "llmgov_count=output 900")
	if err != nil || r.OverallCode != pb.RateLimitResponse_OVER_LIMIT || len(r.Statuses) != 2 || r.Statuses[0].DurationUntilReset.AsDuration() <= 0 {
		t.Fatalf("%v: %v", r, err)
	}
	if !strings.Contains(string(r.RawBody), `"code":"rate_limit_exceeded"`) {
		t.Errorf("the body is %s", r.RawBody)
	}
	got := map[string]string{}
	for _, h := range r.ResponseHeadersToAdd {
		got[h.Key] = h.Value
	}
	if got["Retry-After"] == "" || got["X-Ratelimit-Limit-Tokens"] != "1000" || got["Content-Type"] != "application/json" {
		t.Errorf("the headers are %v", got)
	}
}

// A proxy that only says what was used limits tokens, even if it says so too late.
func TestShouldRateLimit_TotalsAlone(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		hits string
		want pb.RateLimitResponse_Code
		used int64
	}{
		{"0", pb.RateLimitResponse_OK, 0},
		{"700", pb.RateLimitResponse_OK, 700},
		{"0", pb.RateLimitResponse_OK, 700},
		{"800", pb.RateLimitResponse_OVER_LIMIT, 1500},
		{"0", pb.RateLimitResponse_OVER_LIMIT, 1500},
		{"member=bob 30", pb.RateLimitResponse_OVER_LIMIT, 1530}, // who is blocked
	} {
		r, err := w.ask("team=acme model=gpt-4o llmgov_count=total " + c.hits)
		if err != nil || r.OverallCode != c.want {
			t.Errorf("%s tokens: %v, %v", c.hits, r, err)
		}
		st, _ := w.gov.TenantState("acme")
		for _, l := range st.Limits {
			if l.Axis == "tokens" && l.Used != c.used {
				t.Errorf("after %s: %d tokens are used, %d is right", c.hits, l.Used, c.used)
			}
		}
	}
	if n, _ := w.gov.Leases(); n != 0 {
		t.Errorf("%d leases are left", n)
	}
}

// Whatever cannot be read is an error, and nobody goes on because of it.
func TestShouldRateLimit_BadInput(t *testing.T) {
	for name, c := range map[string]struct {
		descriptors []string
		code        codes.Code // OK is a refusal
		text        string
	}{
		"no descriptors":     {nil, codes.InvalidArgument, ""},
		"absurd hits":        {[]string{"team=acme model=gpt-4o llmgov_count=total 2000000000"}, codes.InvalidArgument, ""},
		"two tenants":        {[]string{"team=acme model=gpt-4o", "team=other"}, codes.InvalidArgument, ""},
		"two keys":           {[]string{"key=sk-acme model=gpt-4o key=sk-other"}, codes.InvalidArgument, ""},
		"two models":         {[]string{"team=acme model=gpt-5", "team=acme model=gpt-4o"}, codes.InvalidArgument, ""},
		"two pools":          {[]string{"team=acme pool=gpt", "pool=other"}, codes.InvalidArgument, ""},
		"two leases":         {[]string{"llmgov_lease=rsv_x llmgov_count=total 5", "llmgov_lease=rsv_y"}, codes.InvalidArgument, ""},
		"two counts at once": {[]string{"team=acme model=gpt-4o llmgov_count=input llmgov_count=output 5"}, codes.InvalidArgument, ""},
		"two totals":         {[]string{"team=acme model=gpt-4o llmgov_count=total 5", "llmgov_count=total 500"}, codes.InvalidArgument, ""},
		"an unknown count":   {[]string{"team=acme model=gpt-4o llmgov_count=money 2"}, codes.InvalidArgument, ""},
		"somebody's lease":   {[]string{"llmgov_lease=rsv_x llmgov_count=total 5"}, codes.NotFound, ""},
		"unknown tenant":     {[]string{"team=nobody model=gpt-4o"}, codes.OK, "invalid_api_key"},
		"unknown key":        {[]string{"key=sk-wrong model=gpt-4o"}, codes.OK, "invalid_api_key"},
		"nobody":             {[]string{"model=gpt-4o"}, codes.OK, "invalid_api_key"},
		"tenant and key":     {[]string{"team=acme key=sk-acme model=gpt-4o"}, codes.OK, "invalid_request_error"},
		"no model":           {[]string{"team=acme"}, codes.OK, "invalid_request_error"},
		"a model of others":  {[]string{"team=acme model=gpt-5"}, codes.OK, "model_not_allowed"},
		"an unknown pool":    {[]string{"team=acme pool=none"}, codes.OK, "model_not_found"},
	} {
		w := newWorld(t)
		r, err := w.ask(c.descriptors...)
		if status.Code(err) != c.code || c.code == codes.OK && (r.OverallCode != pb.RateLimitResponse_OVER_LIMIT || !strings.Contains(string(r.RawBody), c.text)) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
		if got := w.used(); got != 0 {
			t.Errorf("%s: %d tokens are used", name, got)
		}
	}
}

// A client that sends the header of leases cannot end a reservation that a program has made.
func TestShouldRateLimit_OthersReservations(t *testing.T) {
	w := newWorld(t)
	testkit.Must(w.s.Book.Reserve(t.Context(), &reserve.Ask{ID: "1", Call: client.Request{Tenant: "acme", Model: "gpt-4o", MaxOutput: 10}}))(t)
	if _, err := w.ask("llmgov_lease=1 llmgov_count=status 429"); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
	if n, _ := w.gov.Leases(); n != 1 {
		t.Errorf("%d leases, and one is right", n)
	}
}

// Negative hits would take back what others used.
func TestShouldRateLimit_Negative(t *testing.T) {
	w := newWorld(t)
	_, err := w.s.ShouldRateLimit(context.Background(), &pb.RateLimitRequest{Descriptors: []*commonv3.RateLimitDescriptor{{
		Entries:    []*commonv3.RateLimitDescriptor_Entry{{Key: "team", Value: "acme"}, {Key: "model", Value: "gpt-4o"}, {Key: "llmgov_count", Value: "total"}},
		HitsAddend: wrapperspb.UInt64(5), IsNegativeHits: true,
	}}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("%v", err)
	}
}

// Calls whose ends are never heard are bounded.
func TestShouldRateLimit_Flood(t *testing.T) {
	w := newWorld(t)
	over := 0
	for range 10 {
		r := testkit.Must(w.ask("team=acme model=gpt-4o", "llmgov_count=output 1"))(t)
		if r.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
			over++
		}
	}
	if n, _ := w.gov.Leases(); n >= 4 || over != 10-n {
		t.Errorf("%d leases of at most 4, and %d of 10 calls were refused", n, over)
	}
}

func TestParseNames(t *testing.T) {
	for text, want := range map[string]bool{"": true, "tenant=a": true, "tenant=a key=b model=c pool=d": true, "tenant": false, "tenant=": false, "user=a": false} {
		if _, ok := ratelimit.ParseNames(text); ok != want {
			t.Errorf("%q: %v", text, ok)
		}
	}
}
