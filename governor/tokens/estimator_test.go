package tokens

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The heuristic is a prior: within a factor of 1.6 of what o200k makes of
// ordinary text, counted once with a real tokenizer.
func TestPriorIsNearARealTokenizer(t *testing.T) {
	for _, c := range []struct {
		text string
		o200 int64
	}{
		{strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20), 201},
		{strings.Repeat("for i := range n {\n\tsum += values[i]\n}\n", 10), 140},
		{strings.Repeat("敏捷的棕色狐狸跳过了懒狗。", 10), 130},
		{strings.Repeat("3.14159 26535 89793 ", 10), 100},
	} {
		got := NewEstimator().Estimate("m", Weigh([]byte(c.text)))
		if got*16 < c.o200*10 || got*10 > c.o200*16 {
			t.Errorf("%.20q…: estimated %d tokens, a tokenizer counts about %d", c.text, got, c.o200)
		}
	}
}

func TestAttachmentsAreNotText(t *testing.T) {
	small := Weigh([]byte(`{"url":"data:image/png;base64,AAAA"}`))
	large := Weigh([]byte(`{"url":"data:image/png;base64,` + strings.Repeat("A", 1<<20) + `"}`))
	if small != large {
		t.Errorf("a large image weighs %d, a small one %d", large, small)
	}
	if open := Weigh([]byte(`;base64,` + strings.Repeat("A", 1<<20))); open != attachmentTokens*Scale {
		t.Errorf("an attachment without an end weighs %d", open)
	}
}

// After the first report the same prompt is estimated exactly, and estimates
// follow a tokenizer that changes.
func TestCalibration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := NewEstimator()
		weight := rapid.Int64Range(Scale*4, 1<<32).Draw(t, "weight")
		actual := weight * rapid.Int64Range(200, 4000).Draw(t, "permille") / 1000 / Scale
		if actual < 1 {
			t.Skip()
		}
		e.Observe("m", weight, actual)
		// One report sets the ratio; it is a millionth, so large prompts may be off
		// by that.
		if got := e.Estimate("m", weight); got < actual-actual/100_000-1 || got > actual+actual/100_000+1 {
			t.Fatalf("estimated %d after a report of %d", got, actual)
		}
		for range 200 {
			e.Observe("m", weight, actual*2)
		}
		if got := e.Estimate("m", weight); got < actual*2*98/100 || got > actual*2*102/100+1 {
			t.Fatalf("estimated %d after 200 reports of %d", got, actual*2)
		}
		if got := e.Estimate("another", weight); got != max(1, (weight+Scale-1)/Scale) {
			t.Fatalf("another model's estimate moved to %d for a weight of %d", got, weight)
		}
	})
}

func TestModelsAreBounded(t *testing.T) {
	e := NewEstimator()
	for i := range 5000 {
		e.Observe(fmt.Sprint(i), 6400, 100)
	}
	if n := len(e.models); n != maxModels {
		t.Errorf("%d models are kept, want %d", n, maxModels)
	}
}

func TestEstimateDoesNotAllocate(t *testing.T) {
	e, text := NewEstimator(), []byte(strings.Repeat("hello world ", 100))
	e.Observe("m", 6400, 100)
	if n := testing.AllocsPerRun(100, func() { e.Estimate("m", Weigh(text)) }); n != 0 {
		t.Errorf("an estimate allocates %v times", n)
	}
}

func BenchmarkWeigh(b *testing.B) {
	text := []byte(strings.Repeat("The quick brown fox jumps over the lazy dog. ", 100))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Weigh(text)
	}
}
