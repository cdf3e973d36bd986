package fleet

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
)

// crowd are the tenants. Each asks at every gateway, for more than its share.
var crowd = []struct {
	name   string
	weight int64
}{{"most", 8}, {"much", 4}, {"some", 2}, {"less", 1}}

// bucket is how finely what is served is counted.
const bucket = 250 * time.Millisecond

// disaster is a store to which things can happen.
type disaster interface {
	Addr() string
	// At is the store's URL at another address.
	At(addr string) string
	Pid() int
	Stop()
	Start()
	Flush()
	// Remembers reports whether it still has its data after Stop and Start.
	Remembers() bool
}

// successor is a store whose place another server can take, at the address returned.
type successor interface{ Failover() (addr string) }

// scene is gateways that share a store, and their ways to it.
type scene struct {
	*fleet
	store disaster
	ways  []*way
}

// tumult is four gateways that share a limit, the calls that flood them, and what became of
// these.
type tumult struct {
	*scene
	model    *processtest.Provider
	pause    time.Duration // after each mishap
	within   time.Duration // of the end of a mishap, nine tenths of the limit have to be served again; 0 is at some time
	off      float64       // by which part shares may be off: what is short says little
	inFlight int64
	refused  atomic.Int64

	began, ended time.Time
	stop         context.CancelFunc
	callers      sync.WaitGroup

	mu      sync.Mutex
	buckets []map[string]int64
	trouble [][2]time.Time
	notes   []string
}

// way is the way of one gateway to the store.
type way struct {
	*toxiproxy.Proxy
	t *testing.T
}

func newWay(t *testing.T, server *toxiproxy.ApiServer, name, to string) *way {
	p := toxiproxy.NewProxy(server, name, "127.0.0.1:0", to)
	testkit.OK(t, p.Start())
	t.Cleanup(p.Stop)
	return &way{p, t}
}

// cut lets nothing through any more, and says so to nobody.
func (w *way) cut() { w.toxic("timeout", "timeout", 0) }

// delay puts half of a delay on each direction.
func (w *way) delay(d time.Duration) { w.toxic("latency", "latency", d.Milliseconds()/2) }

func (w *way) toxic(kind, attribute string, value int64) {
	for _, stream := range []string{"upstream", "downstream"} {
		text := fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"attributes":{%q:%d}}`, kind+stream, kind, stream, attribute, value)
		if _, err := w.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *way) heal() { w.Toxics.ResetToxics(context.Background()) }

func (c *scene) delay(d time.Duration) {
	for _, w := range c.ways {
		if d > 0 {
			w.delay(d)
		} else {
			w.heal()
		}
	}
}

// lead leads all ways to another address.
func (c *scene) lead(addr string) {
	for _, w := range c.ways {
		if err := w.Update(&toxiproxy.Proxy{Listen: w.Listen, Upstream: addr, Enabled: true}); err != nil {
			c.t.Error(err)
		}
	}
}

// newTumult starts four gateways that expect so many to be there.
func newTumult(t *testing.T, store disaster, expect int) *tumult {
	t.Helper()
	c := &tumult{pause: 9 * time.Second, off: 0.1, model: processtest.NewProvider(t, mock.Config{TPM: chaosTPM, OutputTokens: 480})}
	c.scene = newScene(t, store, 4, chaosPool(c.model, fmt.Sprintf("tpm: %d, expect_nodes: %d", chaosTPM, expect)), ofCrowd())
	return c
}

// chaosPool is the config of a pool with such limits, but for the store.
func chaosPool(model *processtest.Provider, limits string) string {
	return fmt.Sprintf("upstreams: {mock: {base_url: %s}}\npools: {p: {models: [\"*\"], %s}}\n", model.URL, limits)
}

// ofCrowd are the settings of the crowd.
func ofCrowd() map[string]string {
	settings := map[string]string{}
	for _, x := range crowd {
		settings[x.name] = fmt.Sprintf("weight: %d, max_wait: 2s", x.weight)
	}
	return settings
}

// newScene starts so many gateways.
func newScene(t *testing.T, store disaster, n int, config string, settings map[string]string) *scene {
	t.Helper()
	c := &scene{store: store}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	var args [][]string
	for i := range n {
		w := newWay(t, server, fmt.Sprint("way", i), store.Addr())
		c.ways = append(c.ways, w)
		args = append(args, []string{"--store", store.At(w.Listen)})
	}
	c.fleet = newFleet(t, n, config, settings, args...)
	return c
}

// flood lets every tenant ask at every gateway, with callers enough for some of them to
// wait at any time.
func (c *tumult) flood() {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.began = time.Now()
	for _, g := range c.gateways {
		for _, x := range crowd {
			for range 4 * x.weight {
				c.inFlight++
				c.callers.Go(func() {
					for ctx.Err() == nil {
						c.call(ctx, g, x.name)
					}
				})
			}
		}
	}
	c.inFlight /= int64(len(c.gateways)) // of one gateway
}

// rest ends the flood.
func (c *tumult) rest() {
	c.stop()
	c.callers.Wait()
	if c.ended.IsZero() {
		c.ended = time.Now()
	}
}

func (c *tumult) call(ctx context.Context, g *gateway, tenant string) {
	limited, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	answer, err := g.call(limited, tenant, longCall)
	if err != nil {
		time.Sleep(50 * time.Millisecond) // the gateway is gone
		return
	}
	if answer.Status != http.StatusOK {
		c.refused.Add(1)
		ms, _ := strconv.Atoi(answer.Header.Get("Retry-After-Ms"))
		time.Sleep(min(max(time.Duration(ms)*time.Millisecond, 50*time.Millisecond), 2*time.Second)) // as SDKs do
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := int(time.Since(c.began) / bucket)
	for len(c.buckets) <= i {
		c.buckets = append(c.buckets, map[string]int64{})
	}
	c.buckets[i][tenant]++
}

func (c *tumult) troubled(from, to time.Time) { c.trouble = append(c.trouble, [2]time.Time{from, to}) }

func (c *tumult) inTrouble(at time.Time) bool {
	for _, x := range c.trouble {
		if !at.Before(x[0].Add(-bucket)) && at.Before(x[1]) {
			return true
		}
	}
	return at.Sub(c.began) < 3*time.Second
}

// served is what was served in the second before a bucket, as a part of the limit.
func (c *tumult) served(before int) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	const second = int(time.Second / bucket)
	n := int64(0)
	for i := max(0, before-second); i < min(before, len(c.buckets)); i++ {
		for _, x := range c.buckets[i] {
			n += x
		}
	}
	return float64(n*chaosCall*60) / chaosTPM
}

// madeUp reports whether clearly more than the limit was served in any four seconds of the last minute.
func (c *tumult) madeUp() bool {
	const second = int(time.Second / bucket)
	now := int(time.Since(c.began) / bucket)
	for i := max(4*second, now-60*second); i <= now; i++ {
		if c.served(i)+c.served(i-second)+c.served(i-2*second)+c.served(i-3*second) > 4*1.15 {
			return true
		}
	}
	return false
}

// least is the smallest part of the limit that was served in a second of a time.
func (c *tumult) least(from, to time.Time) float64 {
	part := 1.0
	for i := int(from.Sub(c.began)/bucket) + int(time.Second/bucket); i <= int(to.Sub(c.began)/bucket); i++ {
		part = min(part, c.served(i))
	}
	return part
}

// recovered waits until nine tenths of the limit are served again for a second, and tells
// how long that took.
func (c *tumult) recovered(since time.Time) time.Duration {
	c.t.Helper()
	for time.Since(since) < 90*time.Second {
		time.Sleep(bucket)
		if time.Since(since) > time.Second && c.served(int(time.Since(c.began)/bucket)) >= 0.9 {
			return time.Since(since) - time.Second
		}
	}
	c.t.Error("calls are not served as before after 90 s")
	return 90 * time.Second
}
