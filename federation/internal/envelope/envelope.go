// Package envelope writes accounts down for stores that keep them as they are: a byte that says
// in which version, and then gob.
package envelope

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"

	"github.com/llmgov/llmgov/federation/internal/gobs"
)

// ErrOther says that an account was written by another release. Whoever meets it keeps its hands
// off the account: what it does not understand may be what was used.
var ErrOther = errors.New("federation: the account in the store is of a release of llmgov that this one cannot read; replace releases one after the other (docs/upgrade.md)")

// ErrDamaged says that an account cannot be read, or not be used. Nothing is granted of it, because
// it may have been most of the limit, until somebody deletes it.
var ErrDamaged = errors.New("federation: the account in the store is damaged")

// Seal writes an account down in a version.
func Seal(version byte, account any) ([]byte, error) {
	out := bytes.NewBuffer([]byte{version})
	if err := gob.NewEncoder(out).Encode(account); err != nil {
		return nil, fmt.Errorf("federation: an account cannot be written down: %w", err)
	}
	return out.Bytes(), nil
}

// Open reads what Seal wrote in the same version into an account, which has to be empty. The error
// is ErrOther if it was another version.
func Open(version byte, b []byte, account any) error {
	if len(b) == 0 || b[0] != version {
		return fmt.Errorf("%w (it is not of encoding %d)", ErrOther, version)
	}
	if err := gobs.Decode(b[1:], account); err != nil {
		return fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	return nil
}
