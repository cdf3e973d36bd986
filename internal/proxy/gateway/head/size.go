package head

import (
	"github.com/llmgov/llmgov/governor/tokens"
)

// Weigh weighs the objects to which the body refers, by their sizes; 0 is not known. An earlier response
// brings along its whole prompt and answer, and so those that it continues.
func (h *Head) Weigh(found []Reference, sizeOf func(id string) int64) {
	r := Referred{}
	for _, ref := range found {
		if ref.Key != "previous_response_id" && ref.Key != "id" {
			continue // files are weighed by their kinds below; nothing else is part of the prompt
		}
		if n := sizeOf(ref.ID); n > 0 {
			r.Tokens += n
		} else {
			r.Unseen++
		}
	}
	for _, file := range h.Prompt.Files {
		switch n := sizeOf(file.ID); {
		case file.Kind == tokens.Image:
			r.Size[tokens.Image] += tokens.Pictures(1)
		case n > 0:
			r.Size[tokens.Document] += tokens.DocumentOf(n)
		default:
			r.Unseen++
		}
	}
	h.Referred = r
}

// Size is the size of the prompt, except for the responses that it continues. A thing of unknown size counts as
// unknown tokens.
func (h *Head) Size(unknown int64) tokens.Size {
	size := h.Prompt.Plus(h.Referred.Size)
	size[tokens.Elsewhere] += (h.Prompt.Unseen + h.Referred.Unseen) * unknown * tokens.Scale
	return size
}

// WeighFiles weighs the files of a form as files of a kind.
func (h *Head) WeighFiles(kind tokens.Kind) {
	size := &h.Prompt.Size
	switch kind {
	case tokens.Image:
		size[tokens.Image] += tokens.Pictures(h.files)
	case tokens.Sound:
		size[tokens.Sound] += tokens.SoundOf(h.bytes)
	default:
		size[tokens.Text] += tokens.DocumentOf(h.bytes)
	}
}
