package parts

import "github.com/llmgov/llmgov/federation/internal/envelope"

// encoding is the version of how accounts are written down.
const encoding = 2

// ErrEncoding says that an account was written by another release, and ErrDamaged that it cannot be read, or not be used.
var (
	ErrEncoding = envelope.ErrOther
	ErrDamaged  = envelope.ErrDamaged
)

// Encode writes an account down, for stores that keep it as it is.
func (a *Account) Encode() ([]byte, error) { return envelope.Seal(encoding, a) }

// Decode reads what Encode wrote.
func Decode(b []byte) (*Account, error) {
	a := &Account{}
	if err := envelope.Open(encoding, b, a); err != nil {
		return nil, err
	}
	return a, nil
}
