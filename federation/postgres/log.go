package postgres

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/internal/gobs"
)

// This file reads and writes logs. A log is an account as it was once, and the beats since then:
//
//	account · mark · beat · mark · beat · mark …
//
// Each beat has a checksum, and comes with the server's clock and incarnation as of when it was appended, so whoever reads a log works out the
// same account and the same answers. The account is written so that a gateway that knows no logs grants nothing of it (account.encode).

// mark tells logs from accounts, and from logs of other formats. No text contains its first byte.
var mark = fmt.Appendf(nil, "\xffllmgov log %d\xff", federation.Format)

// beginLog begins a log with an account.
func beginLog(a account) ([]byte, error) {
	text, err := a.encode()
	if err != nil {
		return nil, err
	}
	return append(text, mark...), nil
}

// castagnoli is the table of the checksums of beats.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeBeat writes a beat down, with its checksum behind it.
func encodeBeat(b any) ([]byte, error) {
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(b); err != nil {
		return nil, fmt.Errorf("a beat cannot be written down: %w", err)
	}
	return binary.BigEndian.AppendUint32(out.Bytes(), crc32.Checksum(out.Bytes(), castagnoli)), nil
}

// decodeBeat reads what encodeBeat wrote.
func decodeBeat(in []byte, b any) error {
	end := len(in) - crc32.Size
	if end < 0 || binary.BigEndian.Uint32(in[end:]) != crc32.Checksum(in[:end], castagnoli) {
		return errors.New("the checksum of a beat is wrong")
	}
	return gobs.Decode(in[:end], b)
}

// entry is a beat of a log.
type entry struct {
	now         int64
	incarnation string
	beat        []byte // see encodeBeat
}

// read reads the first beat of a part of a log, and returns the others.
func (e *entry) read(in []byte) ([]byte, error) {
	const numbers = 8 + 4
	if len(in) < numbers {
		return nil, fmt.Errorf("%w (its log ends too early)", federation.ErrDamaged)
	}
	e.now = int64(binary.BigEndian.Uint64(in))
	length := int64(binary.BigEndian.Uint32(in[8:]))
	in = in[numbers:]
	if length > int64(len(in)) {
		return nil, fmt.Errorf("%w (a beat of its log ends too early)", federation.ErrDamaged)
	}
	e.beat = in[:length]
	incarnation, rest, marked := bytes.Cut(in[length:], mark)
	if !marked {
		return nil, fmt.Errorf("%w (a beat of its log has no end)", federation.ErrDamaged)
	}
	e.incarnation = string(incarnation)
	return rest, nil
}
