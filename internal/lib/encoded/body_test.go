package encoded

import (
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestBody_AsItComes: whoever waits for the first event of a stream does not wait for the second.
func TestBody_AsItComes(t *testing.T) {
	from, to := io.Pipe()
	w := gzip.NewWriter(to)
	first := make(chan struct{})
	go func() {
		_, _ = w.Write([]byte("first"))
		_ = w.Flush()
		<-first
		_, _ = w.Write([]byte("second"))
		_ = w.Close()
		_ = to.Close()
	}()
	body := Body("gzip", from)
	got := make([]byte, 5)
	testkit.Must(io.ReadFull(body, got))(t)
	close(first)
	if rest := testkit.Must(io.ReadAll(body))(t); string(got) != "first" || string(rest) != "second" {
		t.Errorf("read %q, then %q", got, rest)
	}
	testkit.OK(t, body.Close())
}

// TestBody_Fails: a body that is not what its label says is broken, and one whose connection is lost fails as that does.
func TestBody_Fails(t *testing.T) {
	lost := errors.New("lost")
	whole := testkit.Gzip("hello")
	for name, c := range map[string]struct {
		encoding string
		body     io.Reader
		broken   bool
	}{
		"gzip, lost":      {"gzip", io.MultiReader(strings.NewReader(whole[:15]), failing{lost}), false},
		"zstd, lost":      {"zstd", io.MultiReader(strings.NewReader(testkit.Zstd("hello")[:8]), failing{lost}), false},
		"lost at once":    {"gzip", failing{lost}, false},
		"cut":             {"gzip", strings.NewReader(whole[:15]), true},
		"cut in its head": {"gzip", strings.NewReader(whole[:5]), true},
		"cut zstd":        {"zstd", strings.NewReader(testkit.Zstd("hello")[:8]), true},
		"text":            {"gzip", strings.NewReader("data: {}"), true},
		"text for zstd":   {"zstd", strings.NewReader("data: {}"), true},
	} {
		_, err := io.ReadAll(Body(c.encoding, io.NopCloser(c.body)))
		if errors.As(err, new(*Broken)) != c.broken || errors.Is(err, lost) == c.broken {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
