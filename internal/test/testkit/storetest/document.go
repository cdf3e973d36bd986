package storetest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Documents is a store of texts.
type Documents interface {
	Document(ctx context.Context, name string) (string, error)
	Replace(ctx context.Context, name, old, text string) (bool, error)
}

// RunDocuments runs the suite of texts: one that has changed meanwhile is not written over.
func RunDocuments(t *testing.T, s Documents) {
	text := func() string { return testkit.Must(s.Document(t.Context(), "notes"))(t) }
	if got := text(); got != "" {
		t.Errorf("the first text is %q", got)
	}
	for _, c := range []struct {
		old, text string
		done      bool
	}{{"x", "a", false}, {"", "a", true}, {"", "b", false}, {"x", "b", false}, {"a", "a", true}, {"a", `{"é":"'"}`, true}, {`{"é":"'"}`, "0", true}} {
		if done := testkit.Must(s.Replace(t.Context(), "notes", c.old, c.text))(t); done != c.done {
			t.Errorf("replace %q by %q: %v", c.old, c.text, done)
		}
		if got := text(); c.done && got != c.text {
			t.Errorf("%q was written and %q is read", c.text, got)
		}
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for n := 0; n < 5; {
				old, err := s.Document(t.Context(), "notes")
				if err != nil {
					t.Error(err)
					return
				}
				next, _ := strconv.Atoi(old)
				if done, err := s.Replace(t.Context(), "notes", old, fmt.Sprint(next+1)); err != nil {
					t.Error(err)
					return
				} else if done {
					n++
				}
			}
		})
	}
	group.Wait()
	if got := text(); got != "20" {
		t.Errorf("20 additions side by side came to %s", got)
	}
	if got := testkit.Must(s.Document(t.Context(), "others"))(t); got != "" {
		t.Errorf("a text of another name is %q", got)
	}
}
