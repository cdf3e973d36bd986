package mock

import "strconv"

// rerank is the shape of /v1/rerank and /v2/rerank, as vLLM and Jina have it: documents come in the order in which they were sent.
type rerank struct {
	unstreamed
	j *job
}

func (r *rerank) prepare(j *job, _ string) { r.j = j }

func (r *rerank) plain(b []byte) []byte {
	b = r.j.appendID(b, `{"id":"rerank-`)
	b = append(b, `","model":`...)
	b = append(b, r.j.call.model.Raw...)
	b = append(b, `,"results":[`...)
	for i := range inputCount(r.j.call.input) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"relevance_score":0.5}`...)
	}
	b = append(b, `],"usage":{"total_tokens":`...)
	b = strconv.AppendInt(b, r.j.ticket.prompt, 10)
	return append(b, "}}"...)
}
