package extproc

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	aiv3 "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/llmgov/llmgov/streaming"
)

// mostTokens bounds numbers of tokens in metadata. Nobody means more than that.
const mostTokens = 1_000_000_000

// typed finds the message of m's type in the typed metadata, in whichever namespace the proxy puts it.
func typed(in *corev3.Metadata, m proto.Message) bool {
	for _, v := range in.GetTypedFilterMetadata() {
		if v.MessageIs(m) {
			return v.UnmarshalTo(m) == nil
		}
	}
	return false
}

// infoOf is the proxy's description of a request; nil if there is none.
func infoOf(in *corev3.Metadata) *aiv3.RequestInfo {
	info := new(aiv3.RequestInfo)
	if !typed(in, info) {
		return nil
	}
	return info
}

// usageOf is the usage that the proxy found in an answer, and whether that is all of it.
func usageOf(in *corev3.Metadata) (u streaming.Usage, whole bool) {
	var t aiv3.TokenUsage
	if !typed(in, &t) {
		return streaming.Usage{}, false
	}
	u = streaming.Usage{
		Input:       count(t.InputTokens),
		CachedInput: count(t.GetInputTokenDetails().GetCachedTokens()),
		CacheWrite:  count(t.GetInputTokenDetails().GetCacheCreationTokens()),
		Output:      count(t.OutputTokens),
		Reasoning:   count(t.GetOutputTokenDetails().GetReasoningTokens()),
	}
	u.CachedInput = min(u.CachedInput, u.Input)
	u.CacheWrite = min(u.CacheWrite, u.Input-u.CachedInput)
	u.Reasoning = min(u.Reasoning, u.Output)
	return u, t.ExtractionStatus == aiv3.TokenUsage_COMPLETE && u != streaming.Usage{}
}

// count is a number of tokens; one that nobody means is not there.
func count(v *wrapperspb.UInt64Value) int64 {
	if v.GetValue() > mostTokens {
		return 0
	}
	return int64(v.GetValue())
}
