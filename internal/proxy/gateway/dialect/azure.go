package dialect

import (
	"strings"

	"github.com/llmgov/llmgov/internal/proxy/upstreams"
)

// VersionKey is a query key that every call of Azure's SDKs has.
const VersionKey = "api-version"

var azureProvider = &Provider{
	Kind:       "azure",
	Convention: "azure.ai.openai",
	KeyHeader:  "Api-Key",
	Agents:     codex,
	Speaks:     []*Dialect{OpenAI, Responses},
	Lacks:      map[string]bool{"/moderations": true, "/rerank": true, "/images/variations": true},
	Place:      placeAzure,
	Limits:     &upstreams.Azure,
	Lists:      false, // it lists the models that could be deployed, and not its deployments, which are called
}

// byDeployment are the routes that an Azure resource with an api-version has below each deployment;
// other routes it has beside the deployments.
var byDeployment = map[string]bool{
	"/chat/completions": true, "/completions": true, "/embeddings": true, "/images/generations": true, "/images/edits": true,
	"/audio/speech": true, "/audio/transcriptions": true, "/audio/translations": true,
}

// placeAzure finds where the routes of an Azure resource begin. People write its address with and
// without the path that its documentation shows.
func placeAzure(a *Address) {
	root, v1 := strings.CutSuffix(a.Base.Path, "/openai/v1")
	if !v1 {
		root = strings.TrimSuffix(root, "/openai")
	}
	a.deployments = !v1 && a.version != ""
	a.Base.Path = root + "/openai"
	if !a.deployments {
		a.Base.Path += "/v1"
	}
}
