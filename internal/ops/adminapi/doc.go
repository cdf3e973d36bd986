// Package adminapi has the JSON types of the admin API, for the admin side that answers and for
// programs in Go that ask. docs/api.md explains each field.
//
//	GET /api/v1/snapshot   Snapshot
//	GET /api/v1/me         Me
//	GET /api/v1/tenants    TenantList
//	GET /api/v1/fairness   FairnessList
//	GET /api/v1/leases     LeaseList
//	GET /api/v1/history    History
//	GET /api/v1/policy     Policy
//	GET /api/v1/explain    Explanation
//	GET /api/v1/events     a stream of Event
//	GET /api/v1/keys       KeyList
//	POST /api/v1/keys      CreatedKey
//	DELETE /api/v1/keys/ID RevokedKey
//	GET /api/v1/overrides  OverrideList
//	GET, PUT, DELETE /api/v1/overrides/TENANT Override
//	POST /api/v1/reload    Reloaded, or ProblemList if the files are bad
//
// Other errors are an ErrorAnswer.
package adminapi
