package adminapi

// Spend is what calls have taken and cost on some days.
type Spend struct {
	// From and To are the first and the last day, in Timezone.
	From     string `json:"from"`
	To       string `json:"to"`
	Timezone string `json:"timezone"`
	// AllGateways says that the calls of all gateways with this store are counted, and else those of this one.
	AllGateways bool `json:"all_gateways"`
	// By are the keys by which rows are grouped, of day, tenant, team, model and upstream.
	By    []string     `json:"by"`
	Rows  []SpendRow   `json:"rows"`
	Total SpendFigures `json:"total"`
}

// SpendRow has the figures of one group. Keys by which nobody asked are absent.
type SpendRow struct {
	Day      string `json:"day,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	Team     string `json:"team,omitempty"` // within the tenant; absent for calls of the tenant's own
	Model    string `json:"model,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	SpendFigures
}

// SpendFigures are sums of calls that have ended.
type SpendFigures struct {
	Calls             int64 `json:"calls"`
	InputTokens       int64 `json:"input_tokens"`
	CachedInputTokens int64 `json:"cached_input_tokens"` // part of the input tokens
	OutputTokens      int64 `json:"output_tokens"`
	EstimatedTokens   int64 `json:"estimated_tokens"` // part of input and output: the upstream did not report them
	// USD is exact to a millionth of a dollar. Calls of models without a price cost nothing.
	USD          float64 `json:"usd"`
	EstimatedUSD float64 `json:"estimated_usd"` // part of usd, for the estimated tokens
}
