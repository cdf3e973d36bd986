package durable

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/governor/record"
)

// A segment is a header and frames. A frame is the length of its payload, a
// checksum over that length and the payload, and the payload: one record.
const (
	// header ends with the number of the layout, which changes with how many amounts a charge has: of four axes and three units it is 1.
	header     = "llmgovj" + string(rune('1'+len(record.Charge{}.Own)+len(record.Charge{}.Spend)-7))
	frameBytes = 8
	maxPayload = 64 << 10
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errRecord  = errors.New("durable: not a record")
)

// appendFrame appends one record.
func appendFrame(b []byte, r *record.Record) ([]byte, error) {
	start := len(b)
	b = append(b, make([]byte, frameBytes)...)
	return closeFrame(appendRecord(b, r), start)
}

// closeFrame fills in the length and the checksum of the frame that begins at a place and ends with b.
func closeFrame(b []byte, start int) ([]byte, error) {
	payload := b[start+frameBytes:]
	if len(payload) > maxPayload {
		return b[:start], errRecord
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[start+4:], checksum(b[start:start+4], payload))
	return b, nil
}

func checksum(length, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, payload)
}

// readFrame reads the record at the beginning of b, and returns the length of its frame.
func readFrame(b []byte) (r record.Record, n int, err error) {
	payload := payloadOf(b)
	if payload == nil {
		return r, 0, errRecord
	}
	r, err = readRecord(payload)
	return r, frameBytes + len(payload), err
}

// kindSpent is the first byte of a payload that is an addition to the account of spend, where a record has its kind.
const kindSpent = 's'

// appendSpent appends a frame with an addition to the account of spend.
func appendSpent(b []byte, r *spend.Row) ([]byte, error) {
	start := len(b)
	b = append(b, make([]byte, frameBytes)...)
	b = append(b, kindSpent)
	for _, text := range [...]string{r.Day, r.Tenant, r.Model, r.Upstream} {
		b = appendText(b, text)
	}
	return closeFrame(appendSum(b, r.Sum), start)
}

// readSpent reads the addition in a payload; ok is false if it is something else.
func readSpent(payload []byte) (r spend.Row, ok bool) {
	in := reader{b: payload}
	if in.byte() != kindSpent {
		return r, false
	}
	for _, text := range [...]*string{&r.Day, &r.Tenant, &r.Model, &r.Upstream} {
		*text = in.text()
	}
	in.sum(&r.Sum)
	return r, !in.bad && len(in.b) == 0
}

func appendSum(b []byte, s spend.Sum) []byte {
	for _, n := range s {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func (in *reader) sum(s *spend.Sum) {
	for i := range s {
		s[i] = in.varint()
	}
}

// payloadOf is the payload of the frame at the beginning of b, or nil if there is no frame.
func payloadOf(b []byte) []byte {
	if len(b) < frameBytes {
		return nil
	}
	n := binary.LittleEndian.Uint32(b)
	if n == 0 || n > maxPayload || int(n) > len(b)-frameBytes {
		return nil
	}
	payload := b[frameBytes : frameBytes+n]
	if checksum(b[:4], payload) != binary.LittleEndian.Uint32(b[4:]) {
		return nil
	}
	return payload
}

func appendRecord(b []byte, r *record.Record) []byte {
	b = append(b, byte(r.Kind))
	b = binary.AppendUvarint(b, r.Call)
	b = appendText(b, r.Tenant)
	b = appendText(b, r.Pool)
	b = binary.AppendVarint(b, r.Held.UnixNano())
	b = binary.AppendVarint(b, r.Began.UnixNano())
	b = appendCharge(b, &r.Booked)
	if r.Kind == record.Ended {
		b = binary.AppendVarint(b, r.Ended.UnixNano())
		b = appendCharge(b, &r.Took)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// kept are the parts of a charge that are written down. The pool's input and output follow from its tokens and from Own (record.Past.Read).
func kept(c *record.Charge) [3][]int64 { return [...][]int64{c.Pool[:2], c.Own[:], c.Spend[:]} }

func appendCharge(b []byte, c *record.Charge) []byte {
	for _, list := range kept(c) {
		for _, n := range list {
			b = binary.AppendVarint(b, n)
		}
	}
	return b
}

// reader decodes a payload. After an error it reads zeros.
type reader struct {
	b   []byte
	bad bool
}

func readRecord(b []byte) (record.Record, error) {
	in := reader{b: b}
	r := record.Record{Kind: record.Kind(in.byte()), Call: in.uvarint()}
	r.Tenant = in.text()
	r.Pool = in.text()
	r.Held = in.time()
	r.Began = in.time()
	in.charge(&r.Booked)
	switch r.Kind {
	case record.Ended:
		r.Ended = in.time()
		in.charge(&r.Took)
	case record.Admitted, record.Running, record.Grown:
	default:
		in.bad = true
	}
	if in.bad || len(in.b) > 0 {
		return record.Record{}, errRecord
	}
	return r, nil
}

func (in *reader) byte() byte {
	if len(in.b) == 0 {
		in.bad = true
		return 0
	}
	c := in.b[0]
	in.b = in.b[1:]
	return c
}

func (in *reader) uvarint() uint64 {
	v, n := binary.Uvarint(in.b)
	return skip(in, v, n)
}

func (in *reader) varint() int64 {
	v, n := binary.Varint(in.b)
	return skip(in, v, n)
}

func skip[T int64 | uint64](in *reader, v T, n int) T {
	if n <= 0 {
		in.bad = true
		in.b = nil
		return 0
	}
	in.b = in.b[n:]
	return v
}

func (in *reader) text() string {
	n := in.uvarint()
	if n > uint64(len(in.b)) {
		in.bad = true
		in.b = nil
		return ""
	}
	s := string(in.b[:n])
	in.b = in.b[n:]
	return s
}

func (in *reader) time() time.Time { return time.Unix(0, in.varint()) }

func (in *reader) charge(c *record.Charge) {
	for _, list := range kept(c) {
		for i := range list {
			list[i] = in.varint()
		}
	}
}
