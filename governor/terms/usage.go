package terms

// Usage is what a call has taken. All but Tools, FileSearches and CodeSessions are tokens. CachedInput, CacheWrite, CacheWriteHour, AudioInput and ImageInput are parts of
// Input; Reasoning, AudioOutput and ImageOutput are parts of Output; no token belongs to two parts.
type Usage struct {
	Input       int64 `json:"input"`
	CachedInput int64 `json:"cached_input,omitempty"`
	// CacheWrite is what the call put into the provider's cache, and CacheWriteHour what it put there to stay for an hour.
	CacheWrite     int64 `json:"cache_write,omitempty"`
	CacheWriteHour int64 `json:"cache_write_1h,omitempty"`
	Output         int64 `json:"output"`
	Reasoning      int64 `json:"reasoning,omitempty"`
	AudioInput     int64 `json:"audio_input,omitempty"`
	AudioOutput    int64 `json:"audio_output,omitempty"`
	ImageInput     int64 `json:"image_input,omitempty"`
	ImageOutput    int64 `json:"image_output,omitempty"`
	Tools          int64 `json:"tool_calls,omitempty"`    // web searches that the provider ran
	FileSearches   int64 `json:"file_searches,omitempty"` // searches of files that it ran
	CodeSessions   int64 `json:"code_sessions,omitempty"` // sessions in which it ran code
	// Tier is the service tier that answered; "" is the standard one.
	Tier string `json:"tier,omitempty"`
}

// TierBatch is the tier of batches.
const TierBatch = "batch"

// Plus is the sum of two usages, with the tier of the first that has one.
func (u Usage) Plus(o Usage) Usage {
	mine, others := u.counts(), o.counts()
	for i, n := range others {
		*mine[i] += *n
	}
	if u.Tier == "" {
		u.Tier = o.Tier
	}
	return u
}

// Beyond is what a usage has more than another, in each of its parts.
func (u Usage) Beyond(o Usage) Usage {
	mine, others := u.counts(), o.counts()
	for i, n := range others {
		*mine[i] = max(0, *mine[i]-*n)
	}
	return u
}

// Bounded is the usage with each count from 0 to MaxTokens, so that neither weighing nor pricing it can overflow.
func (u Usage) Bounded() Usage {
	for _, n := range u.counts() {
		*n = Bounded(*n)
	}
	return u
}

// Took reports whether anything was taken.
func (u Usage) Took() bool {
	u.Tier = ""
	return u != Usage{}
}

func (u *Usage) counts() [13]*int64 {
	return [...]*int64{
		&u.Input, &u.CachedInput, &u.CacheWrite, &u.CacheWriteHour, &u.Output, &u.Reasoning,
		&u.AudioInput, &u.AudioOutput, &u.ImageInput, &u.ImageOutput, &u.Tools, &u.FileSearches, &u.CodeSessions,
	}
}

// MaxTokens bounds every count that comes from outside.
const MaxTokens = int64(1e12)

// Bounded is a count from 0 to MaxTokens.
func Bounded(n int64) int64 { return min(max(n, 0), MaxTokens) }
