package adminapi

import "time"

// Sharing tells how a pool's limits are shared with other gateways.
type Sharing struct {
	// Status is the store's last answer; Degraded is the failure mode in force, if any.
	Status   string `json:"status"`
	Degraded string `json:"degraded,omitempty"`
	// Error is the error of the last beat, if it failed.
	Error string `json:"error,omitempty"`
	// FailingSince is since when beats have failed.
	FailingSince *time.Time `json:"failing_since,omitempty"`
	// Epoch numbers the store's memories: a new one begins when the old one is lost.
	Epoch int64 `json:"epoch"`
	// Format is the newest format of stored accounts that all gateways understand, and 0 before the first answer.
	Format   int   `json:"format"`
	Beats    int64 `json:"beats"`
	Failures int64 `json:"failures"`
	// AnsweredSeconds is how long ago the last answer came, and LookedSeconds how old the rest is.
	AnsweredSeconds float64 `json:"answered_seconds_ago"`
	LookedSeconds   float64 `json:"looked_seconds_ago"`
	// LearningSeconds is how much longer nothing will be granted, and Learning says why, and what to do about it.
	LearningSeconds float64       `json:"learning_seconds,omitempty"`
	Learning        string        `json:"learning,omitempty"`
	Nodes           []SharingNode `json:"nodes"`
	// Slots are set if the pool limits concurrent calls.
	Slots *SharingSlots `json:"slots,omitempty"`
}

// SharingSlots tells how the slots of a pool are divided over gateways.
type SharingSlots struct {
	// Limit and Used are those of all gateways.
	Limit int64 `json:"limit"`
	Used  int64 `json:"used"`
	// GrantHere and UsedHere are those of this gateway.
	GrantHere int64 `json:"grant_here"`
	UsedHere  int64 `json:"used_here"`
}

// SharingNode is one gateway that shares a pool's limits.
type SharingNode struct {
	Name   string `json:"name"`
	Region string `json:"region"`
	Live   bool   `json:"live"`
	// SeenSeconds is how long before the look the store last heard of it.
	SeenSeconds float64 `json:"seen_seconds_ago"`
	// Tokens and Requests are what it used in the last minute, WaitingTokens what waits there, and
	// GrantTPM and GrantRPM the rates that it was granted. InputTokens, OutputTokens, GrantITPM and GrantOTPM are the same of pools
	// that limit input and output apart.
	Tokens        int64 `json:"tokens"`
	Requests      int64 `json:"requests"`
	WaitingTokens int64 `json:"waiting_tokens"`
	GrantTPM      int64 `json:"grant_tpm"`
	GrantRPM      int64 `json:"grant_rpm"`
	InputTokens   int64 `json:"input_tokens"`
	OutputTokens  int64 `json:"output_tokens"`
	GrantITPM     int64 `json:"grant_itpm"`
	GrantOTPM     int64 `json:"grant_otpm"`
}

// Peer is another gateway with the same store.
type Peer struct {
	Name string
	// Address is that of its admin side, as host:port; "" if others cannot reach that.
	Address string
}
