package parts

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
)

// encoding is the version of how accounts are written down: the first byte. Whoever finds
// another one keeps its hands off.
const encoding = 2

// ErrEncoding says that an account was written by another release.
var ErrEncoding = errors.New("federation: the account in the store is of another release of llmgov; run the same one everywhere")

// Encode writes an account down, for stores that keep it as it is.
func (a *Account) Encode() ([]byte, error) {
	out := bytes.NewBuffer([]byte{encoding})
	if err := gob.NewEncoder(out).Encode(a); err != nil {
		return nil, fmt.Errorf("federation: an account cannot be written down: %w", err)
	}
	return out.Bytes(), nil
}

// Decode reads what Encode wrote.
func Decode(b []byte) (*Account, error) {
	if len(b) == 0 || b[0] != encoding {
		return nil, fmt.Errorf("%w (it is not of encoding %d)", ErrEncoding, encoding)
	}
	a := &Account{}
	if err := gob.NewDecoder(bytes.NewReader(b[1:])).Decode(a); err != nil {
		return nil, fmt.Errorf("federation: the account in the store cannot be read: %w", err)
	}
	return a, nil
}
