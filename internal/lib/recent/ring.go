// Package recent remembers what happened last, of each of many owners, in a memory that is bounded
// for all together. An owner of whom much happens pushes out its own past, and not that of others.
package recent

import (
	"container/heap"
	"maps"
	"slices"
	"sync"
)

// Ring remembers values by owner and id. Its methods may be called by any goroutine.
type Ring[T any] struct {
	most int

	mu     sync.Mutex
	kept   int                  // guarded by mu
	owners map[string]*owner[T] // guarded by mu
	bySize sizes[T]             // guarded by mu: the owner with most first
}

// owner is what is remembered of one owner, the oldest first.
type owner[T any] struct {
	name  string
	items []*item[T]
	byID  map[string]*item[T] // the newest of each id
	at    int                 // index in bySize
}

type item[T any] struct {
	id    string
	value T
}

// New returns a Ring that remembers at most so many values.
func New[T any](most int) *Ring[T] {
	return &Ring[T]{most: most, owners: map[string]*owner[T]{}}
}

// Keep remembers a value. If there are too many, it forgets the oldest of the owner with most.
func (r *Ring[T]) Keep(name, id string, value T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.owners[name]
	if o == nil {
		o = &owner[T]{name: name, byID: map[string]*item[T]{}}
		r.owners[name] = o
		heap.Push(&r.bySize, o)
	}
	one := &item[T]{id, value}
	o.items = append(o.items, one)
	o.byID[id] = one
	heap.Fix(&r.bySize, o.at)
	r.kept++
	if r.kept > r.most {
		r.forget(r.bySize[0])
	}
}

// Drop forgets all values that are old.
func (r *Ring[T]) Drop(old func(T) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bySize = r.bySize[:0]
	for name, o := range r.owners {
		o.items = slices.DeleteFunc(o.items, func(one *item[T]) bool { return old(one.value) })
		maps.DeleteFunc(o.byID, func(_ string, one *item[T]) bool { return old(one.value) })
		if len(o.items) == 0 {
			delete(r.owners, name)
			continue
		}
		r.bySize.Push(o)
	}
	heap.Init(&r.bySize)
	r.kept = 0
	for _, o := range r.owners {
		r.kept += len(o.items)
	}
}

// forget drops an owner's oldest value, and an owner without values.
func (r *Ring[T]) forget(o *owner[T]) {
	old := o.items[0]
	o.items[0] = nil
	o.items = o.items[1:]
	if o.byID[old.id] == old { // not if the id came again
		delete(o.byID, old.id)
	}
	r.kept--
	if len(o.items) == 0 {
		heap.Remove(&r.bySize, o.at)
		delete(r.owners, o.name)
		return
	}
	heap.Fix(&r.bySize, o.at)
}

// Find returns the newest value with an id, of each owner that has one.
func (r *Ring[T]) Find(id string) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []T
	for _, o := range r.bySize {
		if one := o.byID[id]; one != nil {
			found = append(found, one.value)
		}
	}
	return found
}

// sizes is a heap of owners by how much is remembered of them.
type sizes[T any] []*owner[T]

func (s sizes[T]) Len() int           { return len(s) }
func (s sizes[T]) Less(i, j int) bool { return len(s[i].items) > len(s[j].items) }

func (s sizes[T]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].at = i
	s[j].at = j
}

func (s *sizes[T]) Push(x any) {
	o := x.(*owner[T])
	o.at = len(*s)
	*s = append(*s, o)
}

func (s *sizes[T]) Pop() any {
	last := len(*s) - 1
	o := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return o
}
