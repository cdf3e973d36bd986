package bpe

import (
	"bytes"
	"compress/flate"
	"flag"
	"os"
	"testing"

	"github.com/tiktoken-go/tokenizer/codec"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

var update = flag.Bool("update", false, "write the vocabularies anew")

// The vocabularies are those of the tokenizer module, token by token.
func TestVocabularies_AreThoseOfTheModule(t *testing.T) {
	for name, c := range map[string]*codec.Codec{"o200k": codec.NewO200kBase(), "cl100k": codec.NewCl100kBase()} {
		var tokens []string
		for {
			token, err := c.Decode([]uint{uint(len(tokens))})
			if err != nil {
				break
			}
			tokens = append(tokens, token)
		}
		if *update {
			var packed bytes.Buffer
			w := testkit.Must(flate.NewWriter(&packed, flate.BestCompression))(t)
			for _, token := range tokens {
				_, _ = w.Write(append([]byte{byte(len(token))}, token...))
			}
			testkit.OK(t, w.Close())
			testkit.OK(t, os.WriteFile("vocabularies/"+name, packed.Bytes(), 0o644))
			continue
		}
		ranks := load(name, "").ranks
		if len(ranks) != len(tokens) || len(ranks) < 100_000 {
			t.Errorf("%s has %d tokens, and the module's %d", name, len(ranks), len(tokens))
		}
		for rank, token := range tokens {
			if got, known := ranks[token]; !known || got != uint32(rank) {
				t.Fatalf("%s: %q has rank %d, %v, and not %d; write them anew with -update", name, token, got, known, rank)
			}
		}
	}
}

// Any text has as many tokens as the tokenizer module says.
func TestCount_IsThatOfTheModule(t *testing.T) {
	for _, c := range []struct {
		ours codecs
		want *codec.Codec
	}{{loadO200k(), codec.NewO200kBase()}, {loadCl100k(), codec.NewCl100kBase()}} {
		text := rapid.OneOf(rapid.StringN(0, 60, 600), rapid.StringMatching(`[a-zA-Z' ]{0,200}`), rapid.StringMatching(`[ \r\n\t/.0-9'sSdD]{0,80}`), rapid.StringMatching(`a{0,300}|[Ѐ-ӿ一-丰]{0,80}`))
		rapid.Check(t, func(t *rapid.T) {
			s := text.Draw(t, "text")
			want, err := c.want.Count(s)
			if got, failed := c.ours.Count(s); got != want || (err != nil) != (failed != nil) {
				t.Fatalf("%q has %d tokens (%v), and not %d (%v)", s, got, failed, want, err)
			}
		})
	}
}
