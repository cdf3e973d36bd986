package mock

// argument sends token i of the arguments of a tool's call.
func (r *responses) argument(s *sse, choice, i int) {
	r.open(s, "response.function_call_arguments.delta")
	s.buf = append(s.buf, r.delta...)
	s.buf = append(s.buf, r.j.call.argument(choice, i, r.j.plan.natural)...)
	s.buf = append(s.buf, '"')
	r.close(s)
}

func (r *responses) endCall(s *sse) {
	r.open(s, "response.function_call_arguments.done")
	s.buf = r.appendPlace(s.buf, false)
	s.buf = append(s.buf, `,"name":`...)
	s.buf = append(s.buf, r.tool...)
	s.buf = append(s.buf, `,"arguments":"`...)
	s.buf = r.j.call.appendArguments(s.buf, 0, r.j.plan.length, r.j.plan.natural)
	s.buf = append(s.buf, '"')
	r.close(s)
}

// appendItemID writes the id of the one item that an answer has.
func (r *responses) appendItemID(b []byte) []byte {
	if r.tool != "" {
		b = append(b, "fc_"...)
	} else {
		b = append(b, "msg_"...)
	}
	return append(b, r.id...)
}

// appendCall writes the call of a tool: without arguments while in progress, with them after.
func (r *responses) appendCall(b []byte, status string) []byte {
	b = append(b, `{"id":"`...)
	b = r.appendItemID(b)
	b = append(b, `","type":"function_call","status":"`...)
	b = append(b, status...)
	b = append(b, `","call_id":"call_`...)
	b = append(b, r.id...)
	b = append(b, `","name":`...)
	b = append(b, r.tool...)
	b = append(b, `,"arguments":"`...)
	if status != "in_progress" {
		b = r.j.call.appendArguments(b, 0, r.j.plan.length, r.j.plan.natural)
	}
	return append(b, `"}`...)
}
