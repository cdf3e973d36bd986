package tenants

// maxUpstreams is how many upstreams a pool may have.
const maxUpstreams = 64

// maxUpstreamWeight is the largest weight of an upstream in a pool.
const maxUpstreamWeight = 1000
