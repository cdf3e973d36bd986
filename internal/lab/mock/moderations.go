package mock

// moderations is the shape of /v1/moderations: nothing is ever flagged. The answer has no usage,
// but the input counts against the limits.
type moderations struct {
	unstreamed
	j *job
}

// harmless is the verdict on one input.
var harmless = appendHarmless(nil)

func (m *moderations) prepare(j *job, _ string) { m.j = j }

func (m *moderations) plain(b []byte) []byte {
	b = m.j.appendID(b, `{"id":"modr-`)
	b = append(b, `","model":`...)
	if raw := m.j.call.model.Raw; raw != "" && raw != "null" {
		b = append(b, raw...)
	} else {
		b = append(b, `"omni-moderation-latest"`...)
	}
	b = append(b, `,"results":[`...)
	for i := range m.inputs() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, harmless...)
	}
	return append(b, "]}"...)
}

// inputs returns the number of results: one for each string, and one for all parts of a
// multi-modal input.
func (m *moderations) inputs() int {
	if first(m.j.call.input).IsObject() {
		return 1
	}
	return inputCount(m.j.call.input)
}

func appendHarmless(b []byte) []byte {
	categories := []string{
		"harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent",
		"self-harm", "self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence", "violence/graphic",
	}
	each := func(b []byte, field, value string) []byte {
		b = append(b, field...)
		for i, c := range categories {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, '"')
			b = append(b, c...)
			b = append(b, `":`...)
			b = append(b, value...)
		}
		return b
	}
	b = each(b, `{"flagged":false,"categories":{`, "false")
	b = each(b, `},"category_scores":{`, "0.00001")
	b = each(b, `},"category_applied_input_types":{`, `["text"]`)
	return append(b, "}}"...)
}
