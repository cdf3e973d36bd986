package postgres

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"strings"

	"github.com/llmgov/llmgov/federation"
)

// This file reads and writes logs. A log is an account as it was once, and the beats since then:
//
//	account · mark · beat · mark · beat · mark …
//
// Each beat has a checksum, and comes with the server's clock and incarnation as of when it was appended, so whoever reads a log works out the
// same account and the same answers. The account has an incarnation that no server has: for a gateway that knows no logs it is
// one whose memory was lost, which is what it is without the beats behind it.

var (
	// mark tells logs from accounts, and from logs of other formats. No text contains its first byte.
	mark = fmt.Appendf(nil, "\xffllmgov log %d\xff", federation.Format)
	// logged begins the incarnation of an account at the beginning of a log.
	logged = fmt.Sprintf("log %d of ", federation.Format)
)

// newLog begins a log with an account.
func newLog(a *federation.Account) ([]byte, error) {
	own := a.Incarnation
	a.Incarnation = logged + own
	out, err := a.Encode()
	a.Incarnation = own
	if err != nil {
		return nil, err
	}
	return append(out, mark...), nil
}

// castagnoli is the table of the checksums of beats.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeBeat writes a beat down, with its checksum behind it.
func encodeBeat(b *federation.Beat) ([]byte, error) {
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(b); err != nil {
		return nil, fmt.Errorf("a beat cannot be written down: %w", err)
	}
	return binary.BigEndian.AppendUint32(out.Bytes(), crc32.Checksum(out.Bytes(), castagnoli)), nil
}

// decodeBeat reads what encodeBeat wrote.
func decodeBeat(in []byte, b *federation.Beat) error {
	end := len(in) - crc32.Size
	if end < 0 || binary.BigEndian.Uint32(in[end:]) != crc32.Checksum(in[:end], castagnoli) {
		return errors.New("the checksum of a beat is wrong")
	}
	return gob.NewDecoder(bytes.NewReader(in[:end])).Decode(b)
}

// replica is an account as this process worked it out of a log.
type replica struct {
	plain   bool // the row was no log when it was last read, and nothing else is known
	account *federation.Account
	length  int       // of the log that was read
	begins  int       // how much of it is the account at its beginning
	last    int       // how much of it is the last beat, which is this process's own
	sum     hash.Hash // of the log that was read
}

// nothing is a replica of no log.
func nothing() *replica { return &replica{sum: sha256.New()} }

// begin reads the beginning of a row, and returns the rest. A row that is no log is an account, and has no rest.
func (k *replica) begin(row []byte, r federation.Rules) ([]byte, error) {
	begin, rest, isLog := bytes.Cut(row, mark)
	a, err := federation.Decode(begin, r)
	if err != nil {
		return nil, err
	}
	if isLog {
		a.Incarnation = strings.TrimPrefix(a.Incarnation, logged)
	}
	k.account = a
	k.begins = len(row) - len(rest)
	k.length = k.begins
	k.sum.Write(row[:k.begins])
	return rest, nil
}

// follow takes in beats of a log, and returns the answer to the last one.
func (k *replica) follow(beats []byte) (reply federation.Reply, err error) {
	k.length += len(beats)
	k.sum.Write(beats)
	for len(beats) > 0 {
		k.last = len(beats)
		var e entry
		beats, err = e.read(beats)
		if err != nil {
			return reply, err
		}
		if k.account.Incarnation == "" { // there was no beat before
			k.account = federation.NewAccount(k.account.Rules, e.now, federation.Options{Incarnation: e.incarnation})
		}
		reply = k.account.Beat(e.now, e.incarnation, e.beat.Expect, &e.beat)
	}
	return reply, nil
}

// entry is a beat of a log.
type entry struct {
	now         int64
	incarnation string
	beat        federation.Beat
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
	if err := decodeBeat(in[:length], &e.beat); err != nil {
		return nil, fmt.Errorf("%w (%w)", federation.ErrDamaged, err)
	}
	incarnation, rest, marked := bytes.Cut(in[length:], mark)
	if !marked {
		return nil, fmt.Errorf("%w (a beat of its log has no end)", federation.ErrDamaged)
	}
	e.incarnation = string(incarnation)
	return rest, nil
}

// leastLog is how long the beats of a log may become at least.
const leastLog = 32 << 10

// long reports whether a log has so many beats that it should begin later, and this process is to see to that: it is, if
// its own beat was the one too many, or if the one whose beat that was did not. Else all would send the account at the same time.
func (k *replica) long() bool {
	most := max(k.begins, leastLog)
	beats := k.length - k.begins
	return beats > most && (beats-k.last <= most || beats > 3*most)
}

// later is a log that begins with the account as it is, and the replica of that.
func (k *replica) later() ([]byte, *replica, error) {
	text, err := newLog(k.account)
	if err != nil {
		return nil, nil, err
	}
	next := &replica{account: k.account, length: len(text), begins: len(text), sum: sha256.New()}
	next.sum.Write(text)
	return text, next, nil
}
