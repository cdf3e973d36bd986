package stored

import (
	"net/http"

	"github.com/llmgov/llmgov/internal/proxy/objects"
)

// The paths of routes, below /v1.
const (
	FilesPath   = "/files"
	UploadsPath = "/uploads"
	BatchesPath = "/batches"
)

// Undo is the request that removes an object from the upstream, or ends it. below is the path of the route
// that made it. ok is false if there is none: a part goes with its upload.
func (o Object) Undo(below string) (method, path string, ok bool) {
	switch o.Kind {
	case objects.File, objects.BatchFile:
		return http.MethodDelete, FilesPath + "/" + o.ID, true
	case objects.VectorStore:
		return http.MethodDelete, "/vector_stores/" + o.ID, true
	case objects.Batch:
		return http.MethodPost, BatchesPath + "/" + o.ID + "/cancel", true
	case objects.Job:
		return http.MethodPost, "/fine_tuning/jobs/" + o.ID + "/cancel", true
	case objects.Upload:
		return http.MethodPost, UploadsPath + "/" + o.ID + "/cancel", true
	case objects.FileBatch:
		return http.MethodPost, below + "/" + o.ID + "/cancel", true
	}
	return "", "", false
}
