package lengths

// Predictor guesses the length of the next call from those before. It is the
// measure that learners are compared by; only a Book tells calls apart, and knows
// of those that still run.
type Predictor interface {
	Predict() int64
	Observe(actual int64)
}

// Histogram is a Book as a Predictor, for one kind of calls.
type Histogram struct {
	book *Book
	kind Kind
	most int64
	q    float64 // 0: the mean
}

// Mean predicts the expected length of calls of a kind.
func (b *Book) Mean(k Kind, most int64) *Histogram {
	return &Histogram{book: b, kind: k, most: most}
}

// Part predicts the length that a part q of the calls of a kind does not exceed.
func (b *Book) Part(k Kind, most int64, q float64) *Histogram {
	return &Histogram{book: b, kind: k, most: most, q: q}
}

// Predict implements Predictor.
func (h *Histogram) Predict() int64 {
	if h.q > 0 {
		return h.book.Quantile(h.kind, h.most, h.q)
	}
	return h.book.ExpectOf(h.kind, h.most)
}

// Observe implements Predictor.
func (h *Histogram) Observe(actual int64) {
	s := h.book.Start(h.kind, h.most)
	h.book.End(&s, actual, true)
}

// Follow predicts the length that it is told: by a model that has read the prompt, say.
type Follow struct{ told int64 }

// Hint sets the next prediction.
func (f *Follow) Hint(x int64) { f.told = x }

// Predict implements Predictor.
func (f *Follow) Predict() int64 { return f.told }

// Observe implements Predictor: who follows does not learn.
func (f *Follow) Observe(int64) {}
