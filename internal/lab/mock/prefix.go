package mock

import (
	"container/list"
	"hash/maphash"
	"sync"
)

const (
	// blockTokens is the size of a block of the prefix cache, and blockBytes of its text.
	blockTokens = 64
	blockBytes  = 4 * blockTokens
)

// prefixes is the cache of the beginnings of prompts. Their text is cut into blocks, each known by a hash of all the text
// up to its end, so that it is found only behind the same beginning. Those that were used least recently are dropped.
type prefixes struct {
	most int // blocks

	mu    sync.Mutex
	known map[uint64]*list.Element // guarded by mu
	used  list.List                // guarded by mu: the hashes of known, latest first
}

var prefixSeed = maphash.MakeSeed()

// take is the length of the beginning of a prompt that is cached. The rest of it is from then on.
func (p *prefixes) take(prompt []byte) (cached int) {
	var chain []uint64
	var h maphash.Hash
	h.SetSeed(prefixSeed)
	for len(prompt) >= blockBytes {
		_, _ = h.Write(prompt[:blockBytes])
		chain = append(chain, h.Sum64())
		prompt = prompt[blockBytes:]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for cached < len(chain) && p.known[chain[cached]] != nil {
		cached++
	}
	for i := len(chain) - 1; i >= 0; i-- { // so that an end is dropped before its beginning
		p.useLocked(chain[i])
	}
	return cached * blockBytes
}

// useLocked makes a block the one that was used last.
func (p *prefixes) useLocked(block uint64) {
	if e := p.known[block]; e != nil {
		p.used.MoveToFront(e)
		return
	}
	if p.known == nil {
		p.known = map[uint64]*list.Element{}
	}
	p.known[block] = p.used.PushFront(block)
	if len(p.known) > p.most {
		oldest := p.used.Back()
		p.used.Remove(oldest)
		delete(p.known, oldest.Value.(uint64))
	}
}

// cachePrompt looks up the prompt of a call in the prefix cache, as the JSON that it stands in.
func (j *job) cachePrompt() {
	p := &j.s.prefixes
	if p.most == 0 {
		return
	}
	c := &j.call
	text := []byte(c.system.Raw + c.instructions.Raw + c.messages.Raw + c.input.Raw)
	if len(text) == 0 {
		return
	}
	j.ticket.cached = j.ticket.prompt * int64(p.take(text)) / int64(len(text))
	j.s.books.cache(&j.ticket)
}
