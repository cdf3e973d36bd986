package reserve

import (
	"github.com/llmgov/llmgov/governor/client"
)

// mostTokens bounds amounts. Nobody means more than that.
const mostTokens = 1_000_000_000

func checkProduced(p client.Produced) error {
	return checkAmounts([]amount{{"output_tokens", p.Tokens}, {"deltas", p.Deltas}})
}

func checkEnd(e *client.End) error {
	u := e.Usage
	if err := checkAmounts([]amount{
		{"usage.input_tokens", u.Input},
		{"usage.cached_input_tokens", u.CachedInput},
		{"usage.output_tokens", u.Output},
		{"usage.reasoning_tokens", u.Reasoning},
		{"usage.audio_input_tokens", u.AudioInput},
		{"usage.audio_output_tokens", u.AudioOutput},
	}); err != nil {
		return err
	}
	return checkProduced(e.Produced)
}

type amount struct {
	param string
	n     int64
}

func checkAmounts(list []amount) error {
	for _, a := range list {
		if a.n < 0 || a.n > mostTokens {
			return invalid(a.param, "%s must be from 0 to %d, not %d", a.param, mostTokens, a.n)
		}
	}
	return nil
}
