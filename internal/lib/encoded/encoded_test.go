package encoded

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

func zstded(text string, opts ...zstd.EOption) []byte {
	w, _ := zstd.NewWriter(nil, opts...)
	return w.EncodeAll([]byte(text), nil)
}

func TestAll(t *testing.T) {
	text := strings.Repeat("hello ", 1000)
	broken := zstded(text)
	broken[len(broken)-1] ^= 1 // of the checksum
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		want     string
		fails    bool
	}{
		"gzip":                 {"gzip", []byte(testkit.Gzip(text)), text, false},
		"gzip in two members":  {"x-gzip", []byte(testkit.Gzip(text) + testkit.Gzip("x")), text + "x", false},
		"zstd":                 {"zstd", zstded(text), text, false},
		"zstd in two frames":   {"zstd", append(zstded(text), zstded("x")...), text + "x", false},
		"a long window":        {"zstd", zstded(text, zstd.WithWindowSize(8<<20)), text, false},
		"longer than it may":   {"gzip", []byte(testkit.Gzip(text + text)), (text + text)[:6001], false},
		"a bomb":               {"zstd", zstded(strings.Repeat("\x00", 64<<20)), strings.Repeat("\x00", 6001), false},
		"cut gzip":             {"gzip", []byte(testkit.Gzip(text))[:30], "", true},
		"cut zstd":             {"zstd", zstded(text)[:20], "", true},
		"a wrong checksum":     {"zstd", broken, "", true},
		"something behind":     {"gzip", []byte(testkit.Gzip(text) + "x"), "", true},
		"another one":          {"zstd", []byte(testkit.Gzip(text)), "", true},
		"too long a window":    {"zstd", []byte("\x28\xb5\x2f\xfd\x00\x80\x09\x00\x00x"), "", true},   // 64 MiB
		"a window that may be": {"zstd", []byte("\x28\xb5\x2f\xfd\x00\x78\x09\x00\x00x"), "x", false}, // 32 MiB
		"nothing":              {"gzip", nil, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := All("a", c.encoding, c.body, 6000)
			broken := (*Broken)(nil)
			if errors.As(err, &broken) != c.fails || err == nil && string(got) != c.want {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
			if again, err := All("a", c.encoding, map[bool][]byte{true: zstded("y"), false: []byte(testkit.Gzip("y"))}[c.encoding == "zstd"], 9); string(again) != "y" {
				t.Errorf("behind it another one is read as %q, %v", again, err)
			}
		})
	}
}

// TestAll_Ratio: few bytes that become many are given up as soon as they are more than text is.
func TestAll_Ratio(t *testing.T) {
	for encoding, body := range map[string][]byte{"gzip": []byte(testkit.Gzip(strings.Repeat("\x00", 8<<20))), "zstd": zstded(strings.Repeat("\x00", 8<<20))} {
		all, err := All("a", encoding, body, 8<<20)
		broken, ok := errors.AsType[*Broken](err)
		if !ok || broken.Cause != errRatio || len(all) > 2<<20 {
			t.Errorf("%s: %d bytes, %v", encoding, len(all), err)
		}
	}
}

// TestRead_Fair: however many bodies one sender has, another one's is decoded beside them.
func TestRead_Fair(t *testing.T) {
	defer func(before chan struct{}) { places = before }(places)
	places = make(chan struct{}, 4)
	body := []byte(testkit.Gzip("x"))
	var all sync.WaitGroup
	began := make(chan struct{}, 100)
	last := make(chan struct{})
	for i := range cap(began) {
		all.Go(func() {
			_ = Read([]string{"many", "many/a", "many/b/c"}[i%3], "gzip", body, func(io.Reader) error { began <- struct{}{}; <-last; return nil })
		})
	}
	for range cap(places) / 2 {
		<-began
	}
	for range 10 {
		testkit.OK(t, Read("few", "gzip", body, func(io.Reader) error { return nil }))
	}
	if n := len(began); n != 0 {
		t.Errorf("%d more bodies of one sender than half of the places", n)
	}
	close(last)
	all.Wait()
	if len(lines.of) != 0 {
		t.Errorf("%d lines are left of senders who have gone", len(lines.of))
	}
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   string
		known  bool
	}{
		{nil, "", true},
		{[]string{"identity"}, "", true},
		{[]string{" GZIP"}, "gzip", true},
		{[]string{"identity, zstd"}, "zstd", true},
		{[]string{"gzip, zstd"}, "gzip, zstd", false},
		{[]string{"gzip", "gzip"}, "gzip", false},
		{[]string{"br"}, "br", false},
	} {
		if got, known := Of(c.values); got != c.want || known != c.known {
			t.Errorf("%q is %q, %v", c.values, got, known)
		}
	}
}
