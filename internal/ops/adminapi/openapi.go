package adminapi

import _ "embed"

// OpenAPI describes the admin API for programs, as OpenAPI 3.1. It is made from the types of this package:
// go test ./internal/ops/adminapi -update.
//
//go:embed openapi.json
var OpenAPI []byte
