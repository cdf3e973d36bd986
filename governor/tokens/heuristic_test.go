package tokens

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

// longTexts are texts of the corpus, each made as long as prompts become, and texts that are alike in
// equal distances.
func longTexts(t testing.TB) map[string][]byte {
	t.Helper()
	texts := map[string][]byte{
		"lines of a table": []byte(strings.Repeat("| 12.50 | 8,125 |               | a name |\n", 1<<12)),
		"rows of 1024":     []byte(strings.Repeat(strings.Repeat(" ", 512)+strings.Repeat("{", 512), 1<<8)),
		"two halves":       []byte(strings.Repeat(" ", 1<<17) + strings.Repeat("{", 1<<17)),
		"one byte":         []byte(strings.Repeat("a", sampled+1)),
	}
	paths, err := filepath.Glob("testdata/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatal("no corpus: ", err)
	}
	for _, path := range paths {
		text := testkit.Must(os.ReadFile(path))(t)
		for _, size := range []int{sampled + 1, 3 * sampled, 400_000} {
			long := bytes.Repeat(text, size/len(text)+1)
			texts[path+" "+string(rune('0'+size/sampled))] = long[:size]
		}
	}
	return texts
}

// Samples of long texts are off by at most 2 % in the median, and by at most 5 % at the worst.
func TestWeigh_ErrorOfSamples(t *testing.T) {
	var all []int64
	for name, text := range longTexts(t) {
		want := sizeAll(text).Text()
		for seed := range uint64(20) {
			got := weighSamples(text, seed*0x9e3779b97f4a7c15).Text()
			off := max(got-want, want-got) * 10_000 / want
			all = append(all, off)
			if off > 500 {
				t.Errorf("%s, seed %d: weighs %d, off by %d hundredths of a percent from %d", name, seed, got, off, want)
			}
		}
	}
	slices.Sort(all)
	t.Logf("hundredths of a percent: median %d, most %d, of %d", all[len(all)/2], all[len(all)-1], len(all))
	if median := all[len(all)/2]; median > 200 {
		t.Errorf("off by %d hundredths of a percent in the median", median)
	}
}

// A caller cannot know the places of samples: light bytes at one place of every part, or at those of a sequence,
// do not hide the heavy ones between them.
func TestWeigh_NobodyKnowsThePlaces(t *testing.T) {
	const length = 1 << 20
	part := length / blocks
	for phase := range 16 {
		for name, step := range map[string]uint64{"golden ratio": 0x9e3779b97f4a7c15, "the same everywhere": 0} {
			text := bytes.Repeat([]byte("!"), length)
			place := uint64(phase) << 60
			for i := range blocks {
				place += step
				from := i*part + int(place>>32*uint64(part)>>32)
				for k := from; k < min(from+part/16+blockBytes, (i+1)*part); k++ {
					text[k] = ' '
				}
			}
			if got, want := Weigh(text), sizeAll(text).Text(); got < want*8/10 {
				t.Errorf("%s, phase %d: weighs %d, want %d", name, phase, got, want)
			}
		}
	}
}

// Up to where samples begin, every byte is weighed.
func TestWeigh_ShortTextsAreExact(t *testing.T) {
	text := longTexts(t)["lines of a table"]
	for _, n := range []int{0, 1, 7, 8, 9, 15, 16, 100, 1000, sampled - 1, sampled} {
		if got, want := SizeOf(text[:n]), sizeAll(text[:n]); got != want {
			t.Errorf("%d bytes weigh %v, want %v", n, got, want)
		}
	}
}
