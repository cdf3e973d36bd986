package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"

	"github.com/llmgov/llmgov/internal/lib/htmlpage"
)

//go:embed assets
var assets embed.FS

// policy allows only resources of this listener: no script in the page, no request to
// other servers, no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler answers below /console/.
func Handler() http.Handler {
	page, err := fs.Sub(assets, "assets")
	if err != nil {
		panic("llmgov: BUG: " + err.Error())
	}
	mux := http.NewServeMux()
	mux.Handle("/console/", http.StripPrefix("/console/", serve(page)))
	mux.Handle("/console/uplot/", http.StripPrefix("/console/uplot/", serve(htmlpage.UPlot())))
	return mux
}

// serve serves files that a browser validates each time, and gets again only if another
// version of the program has changed them.
func serve(files fs.FS) http.Handler {
	tag := `"` + digest(files) + `"`
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		server.ServeHTTP(w, r)
	})
}

// digest names the state of all files together.
func digest(files fs.FS) string {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		sum.Write([]byte(path))
		sum.Write(data)
		return err
	})
	if err != nil {
		panic("llmgov: BUG: " + err.Error())
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
