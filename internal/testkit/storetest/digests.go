package storetest

import (
	"errors"

	"github.com/llmgov/llmgov/federation"
)

// Digests are a store's, by those of the account that it is compared with: each writes down its own in its own way.
type Digests map[string][]byte

// Pair notes two answers to the same beat.
func (d Digests) Pair(want, got federation.Reply) error {
	if (want.Digest == nil) != (got.Digest == nil) {
		return errors.New("only one of the two answers has a digest")
	}
	if want.Digest != nil {
		d[string(want.Digest)] = got.Digest
	}
	return nil
}

// Told is a beat as the store has to be told it, if the account is told b.
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
