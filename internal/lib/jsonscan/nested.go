package jsonscan

import "bytes"

// NextNested is the index of the first bracket or quote of a text that begins outside of strings, or its length. An answer may be
// megabytes of numbers, so it searches with the widest instructions that there are.
func NextNested(text []byte) int {
	i := 0
	for ; i < len(text) && i < nearest; i++ {
		if isNested[text[i]] {
			return i
		}
	}
	if !hasVectors {
		return i + nestedByParts(text[i:])
	}
	i += nestedBlocks(text[i:])
	for i < len(text) && !isNested[text[i]] {
		i++
	}
	return i
}

// nearest is how many bytes are looked at one by one: a wide search costs as much to start.
const nearest = 16

// nestedByParts is NextNested on any processor. A text is searched for one byte after the other, in parts that become twice as large
// each time, because a search that looks further than it must is for nothing.
func nestedByParts(text []byte) int {
	const largest = 8 << 10
	i := 0
	for size := nearest; i < len(text); size = min(2*size, largest) {
		part := text[i:min(len(text), i+size)]
		n := firstNested(part)
		i += n
		if n < len(part) {
			return i
		}
	}
	return i
}

func firstNested(part []byte) int {
	for _, c := range [...]byte{'"', ']', '}', '[', '{'} {
		if n := bytes.IndexByte(part, c); n >= 0 {
			part = part[:n]
		}
	}
	return len(part)
}

var isNested = [256]bool{'"': true, '[': true, ']': true, '{': true, '}': true}
