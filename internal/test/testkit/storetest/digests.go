package storetest

import (
	"errors"

	"github.com/llmgov/llmgov/federation"
)

// Digests maps the digests of an account to those of the store that is compared with it, because each has its own format.
type Digests map[string][]byte

// Pair records two answers to the same beat.
func (d Digests) Pair(want, got federation.Reply) error {
	if (want.Digest == nil) != (got.Digest == nil) {
		return errors.New("only one of the two answers has a digest")
	}
	if want.Digest != nil {
		d[string(want.Digest)] = got.Digest
	}
	return nil
}

// Told is the beat for the store, if the account gets b.
func (d Digests) Told(b *federation.Beat) *federation.Beat {
	if b.Copy == nil {
		return b
	}
	told := *b
	c := *b.Copy
	c.Digest = d[string(b.Copy.Digest)]
	told.Copy = &c
	return &told
}
