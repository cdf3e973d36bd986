package streams

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/testkit"
)

// TestInterrupted: calls that the governor ends early tell so in their callers' words,
// whether their answers have begun or not; what was produced is charged, their leases end,
// and the upstream is not blamed.
func TestInterrupted(t *testing.T) {
	for _, d := range dialects {
		testkit.Virtual(t, d.name, func(t *testing.T) {
			st := newStorm(t, d, 1)
			st.calibrate()
			whole := 0
			cut := 0
			refused := 0
			var mu sync.Mutex
			var all sync.WaitGroup
			rng := rand.New(rand.NewPCG(4, 1))
			for i := range 90 { // of which 30 wait
				at := time.Duration(rng.Int64N(int64(5800 * time.Millisecond)))
				all.Go(func() {
					time.Sleep(at)
					how, text := st.untilCut(d.body(d.variants[i%len(d.variants)], toTheEnd, 0))
					mu.Lock()
					defer mu.Unlock()
					switch how {
					case "whole":
						whole++
					case "cut":
						cut++
					case "refused":
						refused++
					default:
						t.Errorf("it ends by %s", text)
					}
					if strings.Contains(text, "operator") {
						t.Errorf("its caller is told why: %s", text)
					}
				})
			}
			time.Sleep(5900 * time.Millisecond)
			asked := st.Governor.Interrupt("p", harness.ErrOperator)
			all.Wait()
			t.Logf("%d were asked to end; %d were cut, %d refused, and %d came to their end", asked, cut, refused, whole)
			if cut == 0 || refused == 0 || whole < 30 || cut+refused != asked {
				t.Errorf("%d were asked to end; %d were cut, %d refused, and %d came to their end", asked, cut, refused, whole)
			}
			if n := st.Sum("llmgov_requests_total", map[string]string{"outcome": "failed", "reason": "store_unavailable"}); n != int64(asked) {
				t.Errorf("%d of %d are counted", n, asked)
			}
			if n := st.Mock.Stats().Cancelled; n != int64(asked) {
				t.Errorf("the upstream sees %d of %d go", n, asked)
			}
			if n := st.Sum("llmgov_upstream_errors_total", nil); n != 0 {
				t.Errorf("the upstream is blamed for %d", n)
			}
			checkCharged(st.Stack, "afterwards")
			st.CheckIdle()
			if n := st.Governor.Interrupt("p", harness.ErrOperator); n != 0 {
				t.Errorf("%d run on", n)
			}
			plain := strings.Replace(d.body(d.variants[0], toTheEnd, 0), `"stream":true`, `"stream":false`, 1)
			time.AfterFunc(time.Second, func() { st.Governor.Interrupt("p", harness.ErrOperator) })
			if how, text := st.untilCut(plain); how != "refused" {
				t.Errorf("a plain call ends by %s", text)
			}
			if a := st.CallTo(t.Context(), d.path, "a", d.body(d.variants[0], toTheEnd, 0)); a.Status != http.StatusOK {
				t.Errorf("the next call gets %d: %s", a.Status, a.Body)
			}
		})
	}
}

// untilCut is a call, and how it ended.
func (st *storm) untilCut(body string) (how, text string) {
	resp, err := st.PostTo(st.T.Context(), st.d.path, "a", body)
	if err != nil {
		return "", err.Error()
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	text = string(all)
	last := strings.TrimRight(text, "\n")
	last = last[strings.LastIndex(last, "\n\n")+1:]
	told := strings.Contains(last, "had to end the call early")
	switch {
	case err != nil:
		return "", err.Error()
	case resp.StatusCode == http.StatusServiceUnavailable && told:
		return "refused", text
	case resp.StatusCode == http.StatusOK && told && strings.Contains(last, `"error"`) && !strings.Contains(text, st.d.last):
		return "cut", text
	case resp.StatusCode == http.StatusOK && !told:
		return "whole", text
	}
	return "", fmt.Sprint(resp.StatusCode, ": ", text)
}
