package ratelimit

import (
	"fmt"
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// The entries with fixed names.
const (
	leaseEntry = "llmgov_lease"
	countEntry = "llmgov_count"
)

// The values of countEntry.
const (
	countInput  = "input"
	countOutput = "output"
	countTotal  = "total"
	countStatus = "status"
)

// The bounds of requests. Nobody means more than that.
const (
	mostDescriptors = 64
	mostEntries     = 64
	mostHits        = 1_000_000_000
)

// question is a request as its descriptors have it.
type question struct {
	tenant, key, member, model, pool string
	lease                            string
	counts                           map[string]int64
}

// read reads the descriptors of a request.
func (n *Names) read(req *pb.RateLimitRequest) (*question, error) {
	list := req.GetDescriptors()
	if len(list) == 0 || len(list) > mostDescriptors {
		return nil, fmt.Errorf("a request has from 1 to %d descriptors, not %d", mostDescriptors, len(list))
	}
	q := &question{counts: map[string]int64{}}
	for _, d := range list {
		if err := n.add(q, d, req.GetHitsAddend()); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// add adds the entries of a descriptor.
func (n *Names) add(q *question, d *commonv3.RateLimitDescriptor, hits uint32) error {
	if len(d.GetEntries()) > mostEntries {
		return fmt.Errorf("a descriptor has up to %d entries, not %d", mostEntries, len(d.GetEntries()))
	}
	counts := ""
	for _, e := range d.GetEntries() {
		var says *string
		value := e.GetValue()
		switch e.GetKey() {
		case n.Tenant:
			says = &q.tenant
		case n.Key:
			says = &q.key
			value = strings.TrimPrefix(value, "Bearer ")
		case n.Member:
			says = &q.member
		case n.Model:
			says = &q.model
		case n.Pool:
			says = &q.pool
		case leaseEntry:
			says = &q.lease
			value = lastOf(value)
		case countEntry:
			says = &counts
		default:
			continue
		}
		if *says != "" && *says != value {
			return fmt.Errorf("the descriptors have two values of %s", e.GetKey())
		}
		*says = value
	}
	if counts == "" {
		return nil
	}
	number := uint64(hits)
	if d.GetHitsAddend() != nil {
		number = d.GetHitsAddend().GetValue()
	}
	if counts == countOutput && number > mostHits && q.lease == "" { // a bound that is none
		number = 0
	}
	if number > mostHits || d.GetIsNegativeHits() {
		return fmt.Errorf("hits of %s must be from 0 to %d", counts, mostHits)
	}
	switch counts {
	case countInput, countOutput, countTotal, countStatus:
		if before, there := q.counts[counts]; there && before != int64(number) {
			return fmt.Errorf("the descriptors have two numbers of %s", counts)
		}
		q.counts[counts] = int64(number)
		return nil
	}
	return fmt.Errorf("%s is input, output, total or status, not %.40q", countEntry, counts)
}

// lastOf is the value that we have added, if a client has sent the header, too.
func lastOf(values string) string {
	return strings.TrimSpace(values[strings.LastIndexByte(values, ',')+1:])
}
