// Package affinity picks the upstream where the calls of a conversation go, because it has the beginning of their prompts cached:
// weighted rendezvous hashing with bounded loads. Nothing is remembered, and all gateways agree.
package affinity

import (
	"hash/crc64"
	"math"
)

// Conversation identifies the calls that belong together, because each begins with the prompt of the one before: the
// upstream that served one has it cached. It is the same at all gateways.
type Conversation uint64

// None is the conversation of calls that belong to none.
const None Conversation = 0

// ConversationOf is the conversation that a tenant knows by an id.
func ConversationOf(tenant string, id uint64) Conversation {
	return Conversation(max(1, mixed(hashOf(tenant)^id)))
}

// An upstream is sent conversations until it has more than its part of the calls in flight, by weight, by a quarter and one
// call. With a larger quarter, calls queue at one upstream while others have slots; without the one call, conversations
// move without need while few calls run.
const (
	mostNumerator   = 5
	mostDenominator = 4
	mostBeside      = 1
)

// Candidate is an upstream as a conversation sees it.
type Candidate struct {
	Index   int
	Seed    uint64 // of its name: SeedOf
	Weight  int64
	Running int64 // calls in flight
}

// SeedOf is the seed of an upstream.
func SeedOf(name string) uint64 { return hashOf(name) }

// Home is the first candidate in the order of a conversation that has room for another call.
//
// The order is weighted rendezvous hashing: each candidate draws a time from a hash of both names, exponentially
// distributed with its weight as the rate, and the earliest is first. So all gateways have the same order without
// asking each other, each candidate comes first for its part of the conversations, and when one leaves, no
// conversation moves but its own.
func Home(list []Candidate, of Conversation) Candidate {
	running := int64(1) // with the call itself
	weights := int64(0)
	for _, c := range list {
		running += c.Running
		weights += c.Weight
	}
	first := Candidate{}
	earliest := math.Inf(1)
	for _, c := range list {
		at := c.arrival(of)
		if at < earliest && c.hasRoom(running, weights) {
			earliest = at
			first = c
		}
	}
	return first
}

// arrival is the time that a candidate draws for a conversation.
func (c *Candidate) arrival(of Conversation) float64 {
	const steps = 1 << 53 // that a float64 tells apart
	drawn := (float64(mixed(uint64(of)^c.Seed)>>11) + 0.5) / steps
	return -math.Log(drawn) / float64(c.Weight)
}

// hasRoom reports whether a candidate may take the call, with which so many are in flight at all candidates. If none had room,
// there would be more calls than that.
func (c *Candidate) hasRoom(running, weights int64) bool {
	return (c.Running-mostBeside)*mostDenominator*weights < mostNumerator*running*c.Weight
}

var polynomial = crc64.MakeTable(crc64.ECMA)

// hashOf is the hash of a text.
func hashOf(text string) uint64 { return crc64.Checksum([]byte(text), polynomial) }

// mixed is a number of which every bit depends on every bit of x, which is not so of a checksum (the finalizer of
// splitmix64).
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
