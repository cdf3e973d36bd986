package admission

import "github.com/llmgov/llmgov/internal/run/admission/ask"

// What doors ask for, and hear: see package ask.
type (
	Ask     = ask.Ask
	Header  = ask.Header
	Prompt  = ask.Prompt
	Answer  = ask.Answer
	Retry   = ask.Retry
	Refusal = ask.Refusal
)

// The codes of refusals.
const (
	CodeInvalid      = ask.CodeInvalid
	CodeKey          = ask.CodeKey
	CodeRoute        = ask.CodeRoute
	CodeModel        = ask.CodeModel
	CodeNotFound     = ask.CodeNotFound
	CodeNoModel      = ask.CodeNoModel
	CodeTooLarge     = ask.CodeTooLarge
	CodeRate         = ask.CodeRate
	CodeUpstream     = ask.CodeUpstream
	CodeUpstreamLate = ask.CodeUpstreamLate
	CodeDraining     = ask.CodeDraining
	CodeOverloaded   = ask.CodeOverloaded
	CodeBudget       = ask.CodeBudget
	CodeStore        = ask.CodeStore
	CodeRunning      = ask.CodeRunning
	CodeInternal     = ask.CodeInternal
)
