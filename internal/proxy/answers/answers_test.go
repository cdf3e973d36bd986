package answers

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

const key = "sk-UPSTREAM/SECRET+abc123"

func TestPasses(t *testing.T) {
	for status, want := range map[int]bool{
		0: false, 99: false, 101: false, 199: false, 200: true, 299: true, 300: false, 304: false, 307: false,
		399: false, 400: true, 499: true, 529: true, 599: true, 600: false, 999: false,
	} {
		if Passes(status) != want {
			t.Errorf("%d passes: %v", status, !want)
		}
	}
}

func TestHide(t *testing.T) {
	hidden := strings.Repeat("*", len(key))
	for text, want := range map[string]string{
		"":                               "",
		"nothing":                        "nothing",
		key:                              hidden,
		key[1:]:                          key[1:],
		"a" + key + key + "b":            "a" + hidden + hidden + "b",
		"sk-UPSTREAM" + key:              "sk-UPSTREAM" + hidden,
		`sk-UPSTREAM\/SECRET+abc123`:     hidden + "*",
		`sk-UPSTREAM/SECRET\u002Babc123`: hidden + "*****",
		`sk-UPSTREAM/SECRET\u002babc123`: hidden + "*****",
		"sk-UPSTREAM%2FSECRET%2Babc123":  hidden + "****",
	} {
		got := []byte(text)
		if found := NewSecrets(key).Hide(got); string(got) != want || found != (text != want) {
			t.Errorf("%s becomes %s (%v), want %s", text, got, found, want)
		}
	}
}

// Words that local model servers are given as their keys are no secrets.
func TestSecrets_ShortKeysAreNone(t *testing.T) {
	for _, short := range []string{"", "EMPTY", "not-needed"} {
		body := io.NopCloser(strings.NewReader(short))
		if s := NewSecrets(short); s.In(short) || NewBody(body, s) != body {
			t.Errorf("%q is searched for", short)
		}
	}
}

// However a body is cut into reads, and however it is read, it comes out as if it had been searched
// as a whole.
func TestAudit_M7_Body(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, secret := range []string{key, "aaaaaaaaaaaaaaaaaaaab", strings.Repeat("ab", 10)} {
		s := NewSecrets(secret)
		for range 2000 {
			text := randomText(random, secret)
			want := bytes.Clone(text)
			s.Hide(want)
			got, err := readAll(random, NewBody(io.NopCloser(cut{bytes.NewReader(text), random}), s))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s\nbecomes\n%s, want\n%s (%v)", text, got, want, err)
			}
		}
	}
}

func randomText(random *rand.Rand, secret string) []byte {
	var text []byte
	for range random.IntN(12) {
		from := random.IntN(len(secret))
		switch random.IntN(3) {
		case 0:
			text = append(text, secret...)
		case 1:
			text = append(text, secret[from:]...)
		default:
			text = append(text, secret[:from]...)
		}
	}
	return text
}

// cut returns a few bytes with each read.
type cut struct {
	io.Reader
	random *rand.Rand
}

func (c cut) Read(p []byte) (int, error) {
	return c.Reader.Read(p[:min(len(p), c.random.IntN(30))])
}

// readAll reads with buffers of random sizes.
func readAll(random *rand.Rand, r io.Reader) ([]byte, error) {
	var all []byte
	for {
		buf := make([]byte, 1+random.IntN(100))
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

// An error comes through behind all that came before it.
func TestBody_Error(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("sk-UP"), iotest.ErrReader(io.ErrUnexpectedEOF))
	got, err := io.ReadAll(NewBody(io.NopCloser(broken), NewSecrets(key)))
	if string(got) != "sk-UP" || err != io.ErrUnexpectedEOF {
		t.Errorf("%q %v", got, err)
	}
}

// The search allocates nothing per read.
func TestBody_NoAllocations(t *testing.T) {
	body := NewBody(io.NopCloser(endless{}), NewSecrets(key))
	buf := make([]byte, 4096)
	if n := testkit.Allocs(t, 100, func() { _, _ = body.Read(buf) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = key[i%len(key)]
	}
	return len(p) - 7, nil
}

func TestAudit_L3_Headers(t *testing.T) {
	out := http.Header{"Date": {"today"}}
	in := http.Header{
		"Date": {"yesterday"}, "Content-Type": {"text/plain"}, "Retry-After": {"3"}, "X-Request-Id": {"theirs"}, "Request-Id": {"req"},
		"X-Ratelimit-Limit-Tokens": {"9"}, "Anthropic-Ratelimit-Requests-Limit": {"8"}, "Ratelimit": {"7"},
		"Openai-Processing-Ms": {"12"}, "Etag": {strings.Repeat("x", mostHeader)}, "Openai-Model": {key},
		"X-Llmgov-Degraded": {"open"}, "Access-Control-Allow-Origin": {"*"}, "Clear-Site-Data": {"*"},
		"Strict-Transport-Security": {"max-age=1"}, "X-Should-Retry": {"true"}, "Set-Cookie": {"a=b"}, "Authorization": {"Bearer x"},
		"Location": {"http://elsewhere"}, "Openai-Organization": {"org"}, "Anything-Else": {"x"}, "Vary": {"A", "B"},
	}
	want := http.Header{
		"Date": {"today"}, "Content-Type": {"text/plain"}, "Retry-After": {"3"}, "X-Upstream-Request-Id": {"theirs"}, "Request-Id": {"req"},
		"X-Upstream-Ratelimit-Limit-Tokens": {"9"}, "X-Upstream-Ratelimit-Requests-Limit": {"8"}, "X-Upstream-Ratelimit": {"7"},
		"Openai-Processing-Ms": {"12"}, "Vary": {"A", "B"},
	}
	Headers(out, in, NewSecrets(key), []string{"X-", "Anthropic-"})
	testkit.Same(t, want, out, "headers")
	for i := range 1000 {
		in["X-Ratelimit-"+strings.Repeat("A", i)] = []string{strings.Repeat("x", 1000)}
	}
	size := 0
	out = http.Header{}
	Headers(out, in, Secrets{}, []string{"X-", "Anthropic-"})
	for name, values := range out {
		size += len(name) + len(values[0])
	}
	if size > mostHeaders {
		t.Errorf("%d bytes of headers pass", size)
	}
}

// waited counts how often it is waited for.
type waited struct {
	io.Reader
	times int
}

func (*waited) Close() error { return nil }

// Wait is found by Body.
func (w *waited) Wait() bool {
	w.times++
	return true
}

// Bytes that were searched and not yet read are not waited for, and neither is anything behind the end.
func TestWaitsForNothingThatIsReady(t *testing.T) {
	below := &waited{Reader: strings.NewReader("more than one byte")}
	body := NewBody(below, NewSecrets("a secret of twenty-five B"))
	for {
		if !body.(*Body).Wait() {
			t.Error("the body below has something, and this one does not")
		}
		_, err := body.Read(make([]byte, 1))
		if err != nil {
			break
		}
	}
	if !body.(*Body).Wait() {
		t.Error("nothing comes behind the end")
	}
	if below.times != 2 { // for the text, and for the end
		t.Errorf("%d waits", below.times)
	}
}
